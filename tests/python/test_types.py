"""What the type hints say of programs, to mypy --strict where it is installed."""

import doctest
import importlib.util
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import mha

ROOT = Path(__file__).resolve().parents[2]

PROGRAM = """
from collections.abc import Mapping
from pathlib import Path
import mha, numpy as np
import numpy.typing as npt
Array = npt.NDArray[np.float64]
model = mha.Model(Path("gpt2"), dtype=np.float64, rope_base=5e5, causal=True)
run = model.run(np.array([1, 2]), keep=[("weights", 3), "logits"], patches={("mlp_out", 0): 0.0, "layers.1.q[0] *=": 2})
weights: Array = run["weights", 3]
best: int = run.predictions(-1, top=3)[0].id
patches: list[mha.Patch] = [mha.Patch.zero(("q", 1)), mha.Patch.rows("layers.1.q", lambda at, row: row * 2)]
pairs: list[tuple[str, Array]] = [("layers.1.q", weights)]
for more in (run.with_(patches, keep="logits", threads=2), run.with_(pairs), run.with_("layers.1.q = zero")):
    total: float = more.loss() + float(more.losses().mean())
def use(name: str, place: tuple[int, int, int], rows: Array) -> None:
    print(name, place, rows.shape)
model.stream("a", ["weights", ("q", 1)], use, progress=lambda share: None)
def count(results: Mapping[str, object]) -> int:
    return len(results)
count(run) + count(mha.run({"X": weights}, num_heads=2, stages=["q"]))
for ids, pieces in zip(model.run(["a", "b"]).ids, run.pieces):
    print(len(ids), pieces.upper())
effects: Array = run.effects("kl", [0, -1]) + run.heads("entropy")
other: Array = model.with_("layers.0.W_q", np.zeros((96, 96))).weight(("W_q", 0))
with mha.Model("gpt2") as opened:
    opened.run(opened.tokens([[1], [2, 3]]))
"""

WRONG = """
import mha
model = mha.Model("gpt2")
model.run("a", keep=3)
model.run("a").with_(3)
model.run("a").resid("1")
model.run("a").loss().shape
"""


@unittest.skipUnless(importlib.util.find_spec("mypy"), "no mypy")
class Types(unittest.TestCase):
    def test_right_programs_pass_and_wrong_calls_are_found(self):
        page = doctest.DocTestParser().get_examples((ROOT / "docs" / "python.md").read_text())
        programs = {"right": PROGRAM, "page": "".join(example.source for example in page), "wrong": WRONG}
        with tempfile.TemporaryDirectory() as folder:
            for name, program in programs.items():
                (Path(folder) / f"{name}.py").write_text(program)
            done = subprocess.run(
                [sys.executable, "-m", "mypy", "--strict", "--cache-dir", folder, *(f"{name}.py" for name in programs)],
                cwd=folder, env={"MYPYPATH": str(Path(mha.__file__).parents[1])}, capture_output=True, text=True)
        errors = [line for line in done.stdout.splitlines() if ": error: " in line]
        self.assertEqual([line.split(":")[0] for line in errors], ["wrong.py"] * 4, done.stdout + done.stderr)


if __name__ == "__main__":
    unittest.main()
