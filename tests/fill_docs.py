#!/usr/bin/env python3
"""Runs the commands of documentation pages and writes what they print below them.

    tests/fill_docs.py README.md docs/maths.md

The test "every command of the README and the docs prints what the page shows" checks the result; look
at the difference before committing it. A block that has a line "…" is left as it is, and so are the
README's two commands.
"""
import os
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PROGRAM = os.path.join(ROOT, "build", "dev", "app")


def printed(command, folder):
    env = {"HOME": "/nonexistent", "LC_ALL": "C.UTF-8", "COLUMNS": "100", "PATH": f"{PROGRAM}:/usr/bin:/bin"}
    out = subprocess.run(["sh", "-c", command], cwd=folder, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    return out.stdout.decode().rstrip("\n").split("\n") if out.stdout.strip() else []


def filled(block, folder):
    commands = []  # (command lines, output lines)
    for line in block:
        if line.startswith("$ "):
            commands.append(([line], []))
        elif commands and not commands[-1][1] and commands[-1][0][-1].endswith("\\"):
            commands[-1][0].append(line)
        elif commands:
            commands[-1][1].append(line)
    result = []
    for lines, output in commands:
        command = "\n".join(lines)[2:]
        result += lines
        if "…" in output or command.startswith("sh "):
            printed(command, folder) if not command.startswith("sh ") else None
            result += output
        else:
            result += printed(command, folder)
        if result[-1] != "" and len(commands) > 1 and lines is not commands[-1][0]:
            result += [""] if output or result[-1] not in lines else []
    return result


for page in sys.argv[1:]:
    with tempfile.TemporaryDirectory() as folder:
        os.symlink(os.path.join(ROOT, "data"), os.path.join(folder, "data"))
        out, block = [], None
        for line in open(page, encoding="utf-8").read().split("\n"):
            if block is not None and line.startswith("```"):
                out += filled(block, folder) + [line]
                block = None
            elif block is not None:
                block.append(line)
            else:
                out.append(line)
                if line == "```sh":
                    block = []
        open(page, "w", encoding="utf-8").write("\n".join(out))
