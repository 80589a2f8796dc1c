"""Everybody gets a turn in every round, in another order each time: what slows the machine slows all alike."""
import json
import os
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass

import machine

PAUSE = 0.2  # seconds: thread pools spin for a moment after their work
TURN = {"seconds": 1.0, "least": 3}  # a turn in memory: runs for a second, three at least


def progress(text):
    print(text, file=sys.stderr, flush=True)


def environment(**more):
    """That of a peer: all cores, and OpenBLAS told what it does not find out. Debian's 0.3.21 takes CPUs newer
    than itself for old ones."""
    unset = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_WAIT_POLICY", "OPENBLAS_CORETYPE")
    env = {name: value for name, value in os.environ.items() if name not in unset}
    env["OPENBLAS_NUM_THREADS"] = env["OMP_NUM_THREADS"] = str(machine.cores())
    if "avx512f" in machine.cpu_flags():
        env["OPENBLAS_CORETYPE"] = "SKYLAKEX"
    return {**env, **more}


# Memory that is given back is used again, instead of being cleared by the system once more.
KEEP_MEMORY = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": str(1 << 40), "MALLOC_TOP_PAD_": str(64 << 20)}
PTHREAD, OPENMP = ({"LD_LIBRARY_PATH": machine.BLAS + kind} for kind in ("pthread", "openmp"))
PASSIVE = {"OMP_WAIT_POLICY": "passive"}
# What each peer may be run with; the fastest is kept. PyTorch has threads of its own beside OpenBLAS's, and two
# pools that wait actively for work take the cores from each other.
SETTINGS = {
    "NumPy": [{**PTHREAD, **KEEP_MEMORY}, PTHREAD],
    "PyTorch": [{**OPENMP, **KEEP_MEMORY}, {**OPENMP, **KEEP_MEMORY, **PASSIVE}, {**PTHREAD, **KEEP_MEMORY, **PASSIVE}],
    "ONNX Runtime": [{}],
}


class Worker:
    """A peer's process: it holds the layer, and computes when asked."""

    def __init__(self, command, env):
        self.process = subprocess.Popen(command, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.answer()

    def answer(self):
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit(f"{' '.join(self.process.args)} ended with {self.process.wait()}")
        return json.loads(line)

    def ask(self, **request):
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        return self.answer()

    def turn(self):
        return statistics.median(self.ask(**TURN))

    def stop(self):
        self.process.stdin.close()
        self.process.wait()


def fastest_worker(command, settings):
    """Of the same program in several environments."""
    best, best_seconds = None, float("inf")
    for setting in settings:
        worker = Worker(command, environment(**setting))
        if len(settings) == 1:
            return worker
        time.sleep(PAUSE)
        seconds = min(worker.ask(seconds=0.3, least=2))
        slower = worker
        if seconds < best_seconds:
            best, best_seconds, slower = worker, seconds, best
        if slower:
            slower.stop()
    return best


def in_turns(work, rounds, pause=PAUSE, progress=progress):
    """work: {name: function}. Returns {name: [result of every round]}."""
    results = {name: [] for name in work}
    names = list(work)
    for i in range(rounds):
        for name in names[i % len(names):] + names[:i % len(names)]:
            time.sleep(pause)
            results[name].append(work[name]())
        if progress:
            progress(f"  round {i + 1} of {rounds}")
    return results


def ratios(of, to):
    """Round by round."""
    return [a / b for a, b in zip(of, to)]


@dataclass
class Took:
    """What a program took."""

    seconds: float
    peak: int  # bytes
    errors: str  # what it wrote to standard error


class Bench:
    """Where things are, and how programs are run."""

    def __init__(self, given, modules, folder):
        self.given, self.modules, self.folder = given, modules, folder
        self.rounds = given.rounds
        self.launcher = self.path("measure")
        subprocess.run(["cc", "-O2", "-o", self.launcher, os.path.join(machine.HERE, "measure.c")], check=True)

    def path(self, name):
        return os.path.join(self.folder, name)

    def measured(self, *command, env=None, output=subprocess.DEVNULL):
        """Runs a program to its end; it must succeed."""
        report = self.path("took")
        done = subprocess.run([self.launcher, report, *command], env=env, stdout=output, stderr=subprocess.PIPE)
        if done.returncode != 0:
            raise SystemExit(f"could not run {command[0]}")
        with open(report, encoding="utf-8") as file:
            seconds, kib, status = file.read().split()
        if status != "0":
            raise SystemExit(f"{' '.join(command)} ended with {status}: {done.stderr.decode()}")
        return Took(float(seconds), int(kib) * 1024, done.stderr.decode())

    def ours(self, *arguments):
        """A run of mha-inspect, measured."""
        return self.measured(self.given.program, *arguments)

    def bench(self, source, *arguments):
        """One object of `mha-inspect bench`."""
        out = subprocess.run([self.given.program, "bench", source, "--format", "json", *arguments], stdout=subprocess.PIPE)
        if out.returncode != 0:
            raise SystemExit(f"mha-inspect bench {source} ended with {out.returncode}")
        return json.loads(out.stdout)
