"""`pip install ./app/python` of the checkout, without a network."""

import os
import subprocess
import sys
import tarfile
import tempfile
import unittest
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def backend():
    """The module that pip calls."""
    sys.path.insert(0, str(ROOT / "app" / "python"))
    try:
        import mha_build
    finally:
        sys.path.pop(0)
    return mha_build


class Pip(unittest.TestCase):
    def setUp(self):
        program = os.environ.get("MHA")
        if not program:
            self.skipTest("MHA names no program, beside which the module is built")
        if subprocess.run([sys.executable, "-m", "pip", "--version"], capture_output=True).returncode != 0:
            self.skipTest("no pip")
        self.build = Path(program).resolve().parents[1]

    def pip(self, *words):
        done = subprocess.run(
            [sys.executable, "-m", "pip", *words, "--no-build-isolation", "--no-index", "--no-deps",
             f"--config-settings=build-dir={self.build}", str(ROOT / "app" / "python")],
            capture_output=True, text=True, env={**os.environ, "PIP_DISABLE_PIP_VERSION_CHECK": "1", "PYTHONPATH": ""})
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_the_checkout_is_installed_and_computes(self):
        with tempfile.TemporaryDirectory() as folder:
            self.pip("install", "--target", folder)
            self.assertTrue((Path(folder) / "mha" / "py.typed").exists())
            code = ("import mha, importlib.metadata as about; "
                    "print(mha.__file__, about.version('mha-inspect') == mha.__version__, "
                    f"mha.run({str(ROOT / 'data' / 'quickstart.json')!r})['weights'].shape)")
            said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=folder,
                                  env={**os.environ, "PYTHONPATH": folder})
            self.assertEqual(said.stdout.strip(), f"{folder}/mha/__init__.py True (2, 3, 3)", said.stderr)

    def test_a_build_of_another_checkout_is_not_packed(self):
        mha_build = backend()
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "CMakeCache.txt").write_text("CMAKE_HOME_DIRECTORY:INTERNAL=/elsewhere\n")
            with self.assertRaisesRegex(SystemExit, "built from /elsewhere, not from .*; give another build-dir"):
                mha_build._build(Path(folder), Path(folder) / "stage", {})

    def test_a_source_archive_begins_with_its_project(self):
        mha_build = backend()
        if not (ROOT / ".git").exists():
            self.skipTest("the files of an archive are those of the checkout")
        with tempfile.TemporaryDirectory() as folder:
            name = mha_build.build_sdist(folder)
            with tarfile.open(Path(folder) / name) as archive:
                archive.extractall(folder)
            top = Path(folder) / name.removesuffix(".tar.gz")
            self.assertIn('backend-path = ["app/python"]', (top / "pyproject.toml").read_text())
            self.assertTrue((top / "app" / "python" / "mha_build.py").exists())
            self.assertIn("Name: mha-inspect", (top / "PKG-INFO").read_text())

    def test_a_wheel_lists_what_it_holds(self):
        mha_build = backend()
        with tempfile.TemporaryDirectory() as folder:
            package = Path(folder) / "mha"
            package.mkdir()
            (package / "__init__.py").write_text("answer = 42\n")
            mha_build._write_wheel(Path(folder) / "one.whl", package)
            with zipfile.ZipFile(Path(folder) / "one.whl") as wheel:
                info = next(name.partition("/")[0] for name in wheel.namelist() if ".dist-info/" in name)
                record = wheel.read(f"{info}/RECORD").decode().splitlines()
                self.assertEqual({line.partition(",")[0] for line in record}, set(wheel.namelist()))
                self.assertIn(b"Requires-Dist: numpy", wheel.read(f"{info}/METADATA"))


if __name__ == "__main__":
    unittest.main()
