"""What the benchmark runs on: installs what is missing, and says what is there."""
import datetime
import json
import os
import platform
import re
import shutil
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
PYTHON = "/usr/bin/python3"  # Debian's: the one that has Debian's NumPy and PyTorch
BLAS = f"/usr/lib/{platform.machine()}-linux-gnu/openblas-"
ONNXRUNTIME = "1.30.0"


def debian_install(*packages):
    """As app/demo.sh does: with sudo where needed, and a plain message where there is no apt-get."""
    entries = " ".join(package + "=mha-no-such-command" for package in packages)
    subprocess.run(["sh", "-c", f'cd "{ROOT}" && . app/packages.sh && need_packages {entries}'], check=True)


def can_import(module):
    return subprocess.run([PYTHON, "-c", "import " + module], stderr=subprocess.DEVNULL).returncode == 0


def installed_version(modules):
    try:
        with open(os.path.join(modules, "node_modules", "onnxruntime-node", "package.json"), encoding="utf-8") as file:
            return json.load(file)["version"]
    except OSError:
        return None


def install(modules):
    """Debian's NumPy, PyTorch and both builds of OpenBLAS; ONNX Runtime for Node.js in the folder `modules`,
    "": without it."""
    missing = ["python3-" + name for name in ("numpy", "torch") if not can_import(name)]
    missing += [f"libopenblas0-{kind}" for kind in ("pthread", "openmp") if not os.path.isdir(BLAS + kind)]
    lacks_onnx = modules and installed_version(modules) != ONNXRUNTIME
    if modules and not shutil.which("node"):
        missing.append("nodejs")
    if lacks_onnx and not shutil.which("npm"):
        missing.append("npm")
    if missing:
        debian_install(*missing)
    if lacks_onnx:
        os.makedirs(modules, exist_ok=True)
        subprocess.run(["npm", "install", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error", "--prefix",
                        modules, "onnxruntime-node@" + ONNXRUNTIME], check=True, stdout=sys.stderr)


def cores():
    return len(os.sched_getaffinity(0))


def cpu_flags():
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        return next((line.split(":")[1].split() for line in file if line.startswith("flags")), [])


def cpu_name():
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        fields = dict(line.split(":", 1) for line in file.read().split("\n\n")[0].split("\n") if ":" in line)
    fields = {name.strip(): value.strip() for name, value in fields.items()}
    name = fields.get("model name", platform.machine())
    return re.sub(r"\((R|TM)\)", "", name) + (f" (family {fields['cpu family']}, model {fields['model']})"
                                              if "cpu family" in fields else "")


def printed(*command):
    out = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    return out.stdout.decode().strip() if out.returncode == 0 else "unknown"


def description(modules, program):
    """Rows (what, which) of how it was measured."""
    sets = [name for flag, name in (("avx2", "AVX2"), ("avx512f", "AVX-512"), ("amx_tile", "AMX")) if flag in cpu_flags()]
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    debian = ("dpkg-query", "-W", "-f", "${Version}")
    return [
        ("machine", f"{cpu_name()}, {cores()} cores, {', '.join(sets) or 'baseline'}, {memory:.0f} GiB"),
        ("system", f"{platform.freedesktop_os_release()['PRETTY_NAME']}, Linux {platform.release()}"),
        ("mha-inspect", f"{os.path.relpath(program, ROOT)}, checkout at "
                        f"{printed('git', 'describe', '--always', '--abbrev=7', '--exclude=*', '--dirty')}"),
        ("NumPy", f"{printed(*debian, 'python3-numpy')}, OpenBLAS {printed(*debian, 'libopenblas0-pthread')}"),
        ("PyTorch", f"{printed(*debian, 'python3-torch')}, the same OpenBLAS"),
        ("ONNX Runtime", f"{installed_version(modules)} (onnxruntime-node), Node.js {printed('node', '--version')}"),
        ("date", datetime.date.today().isoformat()),
    ]
