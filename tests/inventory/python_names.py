#!/usr/bin/python3
"""The names of a Python package that programs use (not those of modules called _NAME), and the parameters of its functions, one a line.

    /usr/bin/python3 tests/inventory/python_names.py FOLDER

From the sources, so that nothing needs to be built: "mha.Run.with_", "mha.Run.with_(patches)".
"""
import ast
import pathlib
import sys


def said(module, body, before):
    for node in body:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            if node.name.startswith("_") and not node.name.startswith("__"):
                continue
            yield f"{before}{node.name}"
            given = node.args
            for one in [*given.posonlyargs, *given.args, *given.kwonlyargs, given.vararg, given.kwarg]:
                if one and one.arg not in ("self", "cls"):
                    yield f"{before}{node.name}({one.arg})"
        elif isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            yield f"{before}{node.name}"
            yield from said(module, node.body, f"{before}{node.name}.")
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            if not node.target.id.startswith("_"):
                yield f"{before}{node.target.id}"
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            if node.targets[0].id == "__all__":
                for name in ast.literal_eval(node.value):
                    yield f"{before}__all__: {name}"


def main():
    names = set()
    folder = pathlib.Path(sys.argv[1])
    for file in sorted([*folder.glob("*.py"), *folder.glob("*.pyi")]):
        if file.stem.startswith("_") and file.stem != "__init__":
            continue
        module = "mha" if file.stem == "__init__" else f"mha.{file.stem}"
        names |= set(said(module, ast.parse(file.read_text()).body, module + "."))
    print("\n".join(sorted(names)))


if __name__ == "__main__":
    main()
