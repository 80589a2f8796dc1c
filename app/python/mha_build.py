"""The PEP 517 backend of `pip install ./app/python`: builds the module `mha` with CMake and packs a wheel.

Settings: `--config-settings build-dir=DIR` builds in a permanent folder and reuses what was built there;
`--config-settings cmake-args="-D…"` goes to CMake.
"""

from __future__ import annotations

import base64
import hashlib
import io
import os
import re
import shlex
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
import zipfile
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
NAME = "mha_inspect"
METADATA = """\
Metadata-Version: 2.1
Name: mha-inspect
Version: {version}
Summary: Every step of multi-head attention, as NumPy arrays
License: MIT
Requires-Python: >=3.9
Requires-Dist: numpy
"""


def _version() -> str:
    return re.search(r"project\(mha-inspect VERSION (\S+)", (ROOT / "CMakeLists.txt").read_text())[1]


def _call(*words: object) -> None:
    done = subprocess.run([str(word) for word in words])
    if done.returncode != 0:
        raise SystemExit(f"mha: {' '.join(map(str, words[:3]))} … failed; its messages are above (pip install -v shows them)")


def _build(folder: Path, stage: Path, settings: dict[str, str]) -> Path:
    """Builds the module for this interpreter and installs it below `stage`; its folder."""
    cache = folder / "CMakeCache.txt"
    if not cache.exists():
        options = ["-DCMAKE_BUILD_TYPE=Release", "-DCMAKE_UNITY_BUILD=ON", "-DMHA_RENDER=OFF", "-DMHA_PYTHON=ON"]
        _call("cmake", "-S", ROOT, "-B", folder, f"-DPython3_EXECUTABLE={sys.executable}", *options,
              *shlex.split(settings.get("cmake-args", "")))
    elif (source := re.search(r"^CMAKE_HOME_DIRECTORY:INTERNAL=(.*)$", cache.read_text(), re.M)) and Path(source[1]) != ROOT:
        raise SystemExit(f"mha: {folder} was built from {source[1]}, not from {ROOT}; give another build-dir")
    _call("cmake", "--build", folder, "--target", "mha-python", "--parallel", os.cpu_count() or 1)
    _call("cmake", "--install", folder, "--component", "python", "--prefix", stage)
    package = next(path.parent for path in stage.rglob("mha/__init__.py"))
    if not any((package / f"_core{suffix}").exists() for suffix in EXTENSION_SUFFIXES):
        raise SystemExit(f"mha: {folder} was built for another interpreter than {sys.executable}; give another build-dir")
    return package


def _tag() -> str:
    python = f"cp{sys.version_info.major}{sys.version_info.minor}"
    return f"{python}-{python}-{re.sub('[-.]', '_', sysconfig.get_platform())}"


def _write_wheel(path: Path, package: Path) -> None:
    info = f"{NAME}-{_version()}.dist-info"
    files = {f"mha/{file.relative_to(package)}": file.read_bytes() for file in sorted(package.rglob("*")) if file.is_file()}
    files[f"{info}/METADATA"] = METADATA.format(version=_version()).encode()
    files[f"{info}/WHEEL"] = f"Wheel-Version: 1.0\nGenerator: mha_build\nRoot-Is-Purelib: false\nTag: {_tag()}\n".encode()
    files[f"{info}/LICENSE"] = (ROOT / "LICENSE").read_bytes()
    record = ""
    for name, content in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
        record += f"{name},sha256={digest},{len(content)}\n"
    files[f"{info}/RECORD"] = f"{record}{info}/RECORD,,\n".encode()
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)


def build_wheel(wheel_directory: str, config_settings=None, metadata_directory=None) -> str:
    settings = dict(config_settings or {})
    with tempfile.TemporaryDirectory() as scratch:
        folder = (ROOT / settings["build-dir"]).resolve() if "build-dir" in settings else Path(scratch) / "build"
        package = _build(folder, Path(scratch) / "stage", settings)
        name = f"{NAME}-{_version()}-{_tag()}.whl"
        _write_wheel(Path(wheel_directory) / name, package)
    return name


def build_sdist(sdist_directory: str, config_settings=None) -> str:
    base = f"{NAME}-{_version()}"
    listed = subprocess.run(["git", "-C", str(ROOT), "ls-files", "-z"], capture_output=True, check=True).stdout.decode()
    with tarfile.open(Path(sdist_directory) / f"{base}.tar.gz", "w:gz") as archive:
        for name in filter(None, listed.split("\0")):
            archive.add(ROOT / name, f"{base}/{name}", recursive=False)
        # pip expects both files at the top of the archive, where the backend is in a folder.
        project = (HERE / "pyproject.toml").read_text().replace('["."]', f'["{HERE.relative_to(ROOT).as_posix()}"]')
        for name, text in {"PKG-INFO": METADATA.format(version=_version()), "pyproject.toml": project}.items():
            entry = tarfile.TarInfo(f"{base}/{name}")
            entry.size = len(text.encode())
            archive.addfile(entry, io.BytesIO(text.encode()))
    return f"{base}.tar.gz"
