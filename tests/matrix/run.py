#!/usr/bin/python3
"""The matrix: every command × every kind of input × its outcomes, on tiny models.

    /usr/bin/python3 tests/matrix/run.py PROGRAM [--starter LIBRARY] [--once] [--under "valgrind -q …"] [--only COMMAND]
        [--searches FAMILY] [--share N]

The tables are commands.py and inputs.py; a command that the program lists and commands.py does not
fails. Outcomes: what is computed, with each option of the table, again with one thread to the same
bytes, into a file; beside a reference that is equal, that differs, whose difference is explained and
not; and refusals. A run ends with its exit code, at most one message, no report of a sanitizer, and
leaves no file but the one it was asked for. --starter: runs are copies of one process (starter.cpp).
--once: one run of each command that works. --searches: `diagnose` goes through all changes on the models of
one family alone, which are the same for all. --share: every Nth run, and the first of each command on a kind of
input and with an outcome.
"""
import argparse
import concurrent.futures
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass, field

import numpy as np

import inputs
from commands import COMMANDS, INSTEAD, REFUSALS, WEIGHTS
from share import share_of
from starter import Starter

REPORT = re.compile(r"Sanitizer|runtime error:|^==\d+==", re.M)
LINE = re.compile("(mha-inspect|note|warning): |  ")  # a mistake in JSON is shown with two more lines
ENVIRONMENT = {**os.environ, "LC_ALL": "C.UTF-8", "ASAN_OPTIONS": "exitcode=99:malloc_context_size=1", "UBSAN_OPTIONS": "exitcode=99:print_stacktrace=1"}


@dataclass
class Run:
    words: list
    code: int
    what: str
    file: bool = False                        # -o is given: there is a file afterwards, and only then
    same_as: list = field(default_factory=list)  # the arguments of a run with the same output


def listed(program):
    """The commands of the program, as its help lists them."""
    text = subprocess.run([program, "--help"], capture_output=True, text=True, check=True).stdout
    section = text.split("\nCommands\n")[1].split("\n\n")[0]
    return [line.split()[0] for line in section.splitlines() if re.match("  [a-z]", line)]


def joined(words, options):
    """The options behind the words; where both say -o, the options' own."""
    if "-o" in words and "-o" in options:
        at = words.index("-o")
        words = words[:at] + words[at + 2:]
    return words + options


def of_command(name, command, one):
    """The runs of a command on an input."""
    needs = INSTEAD.get((name, one.kind), command.needs)
    words, works = [name, *one.words, *needs], one.kind in command.works
    yield Run(words, 0 if works else 2, "computed", "-o" in needs)
    if works:
        for options in command.options:
            yield Run(joined(words, options), 0, "with " + " ".join(options), "-o" in words + options)
        if command.threads:
            yield Run(words + ["--threads", "1"], 0, "again with one thread", "-o" in words, same_as=words)
        if command.file and one.kind not in command.one_file_lacks:
            yield Run(joined(words, ["-o", "OUT." + command.file]), 0, "into a file", True)
    if one.model in ("", "llama"):  # another family is refused in the same places
        for what, more in REFUSALS.items():
            if what.startswith("a layer") and one.kind == "nothing":
                continue  # the table of stages has no layers
            yield Run(joined(words, more), 2, "refused: " + what, "-o" in words + more)


def of_comparison(name, command, one):
    """The runs of diff and diagnose: the reference is what dump made of the same input."""
    if one.kind not in command.works:
        yield Run([name, *one.words, "--against", "stages.npz"], 2, "refused: an input that is none")
        return
    own, changed, other = (f"{one.name}.{what}.npz" for what in ("own", "edited", "unlike"))
    if one.kind == "stages" and name == "diff":
        own = f"{one.name}.same.npz"  # diff takes results as they are, others compute again what they can
    words = [name, *one.words, "--against"]
    yield Run(words + [own], 0, "equal")
    yield Run(words + [own, "--threads", "1"], 0, "equal, again", same_as=words + [own])
    yield Run(joined(words + [own], ["-o", "OUT." + command.file]), 0, "equal, into a file", True)
    if one.edit:
        yield Run(words + [changed], 1 if name == "diff" else 0, "differs, explained")
        yield Run(words + [changed, *one.edit], 0, "equal under the same change")
        if name == "diff" or one.kind in ("lone", "chosen"):  # a search takes its time
            yield Run(words + [changed, "-f", "json"], 1 if name == "diff" else 0, "differs, as JSON")
    yield Run(words + [other], 1, "differs, not explained")
    yield Run([name, *one.words], 2, "refused: no reference")
    yield Run(words + ["nowhere.npz"], 2, "refused: no such reference")
    yield Run(words + ["damaged.safetensors"], 2, "refused: a damaged reference")
    yield Run(words + ["hidden.npy"], 2, "refused: a reference that is no stage")
    if one.layers > 1:
        yield Run(words + ["stages.npz"], 2, "refused: stages of one layer beside several")


def of_weights():
    """The runs of diff --weights, which takes two models instead of an input and a reference."""
    for what, (words, code, file) in WEIGHTS.items():
        yield Run(["diff", *words], code, "weights: " + what, file)


def references(folder, program, found, family=""):
    """What another implementation saved: the same, under another convention, and something else. With a family,
    explanations are sought under every change on its models and on lone layers alone."""
    def dump(to, words):
        subprocess.run([program, "dump", *words, "-q", "-o", to], cwd=folder, check=True, env=ENVIRONMENT)

    rng = np.random.default_rng(2)
    for one in found:
        if one.kind not in COMMANDS["diff"].works:
            continue
        own = f"{one.name}.own.npz"
        dump(own, one.words)
        if one.kind == "stages":  # the very file says nothing
            shutil.copy(os.path.join(folder, one.words[0]), os.path.join(folder, f"{one.name}.same.npz"))
        if one.edit:
            dump(f"{one.name}.edited.npz", one.words + one.edit)
        stages = dict(np.load(os.path.join(folder, own)))

        def is_kept(name):
            """What every change is tried for: of two layers, one behind the other. Of the others what few touch."""
            *layer, stage = name.split(".")
            searched = one.is_searched and (not family or one.model in ("", family)) and (not layer or layer[-1] in ("0", "1"))
            return stage in (("output", "weights") if searched else ("q",))

        stages = {name: rng.standard_normal(value.shape) for name, value in stages.items() if is_kept(name)}
        np.savez(os.path.join(folder, f"{one.name}.unlike.npz"), **stages)
    for name, more in (("llama-copy", []), ("llama-half", ["--dump-dtype", "f16"])):
        subprocess.run([program, "convert", "llama", *more, "-o", name + ".safetensors"], cwd=folder, check=True)
    with open(os.path.join(folder, "layers.safetensors"), "rb") as file:
        data = file.read()
    with open(os.path.join(folder, "damaged.safetensors"), "wb") as file:
        file.write(data[:-100])


def share(step, name, runs):
    """Of the runs of a command, each with its kind of input; what another is held against goes with it."""
    chosen = share_of(runs, step, lambda one: [one[0], one[1].what])
    beside = {tuple(run.same_as) for _, run in chosen}
    return [run for kind, run in runs if (kind, run) in chosen or tuple(run.words) in beside]


class Matrix:
    def __init__(self, folder, starter):
        self.folder, self.starter = folder, starter
        self.first = self.state()
        self.results, self.seconds = {}, Counter()

    def state(self):
        return {entry.name: (entry.stat().st_mtime_ns, entry.stat().st_size) for entry in os.scandir(self.folder)
                if entry.name != "out"}

    def start(self, words, place):
        done = self.starter.start([word.replace("OUT", os.path.join(place, "r")) for word in words], self.folder, place)
        made = {}
        for base, _, names in os.walk(place):
            for name in names:
                with open(os.path.join(base, name), "rb") as file:
                    made[name] = file.read()
        self.seconds[words[0]] += done.seconds
        return done.code, done.out, done.err, made

    def judge(self, number, run):
        """What is wrong with a run, line by line."""
        with tempfile.TemporaryDirectory(dir=os.path.join(self.folder, "out")) as place:
            code, out, err, made = self.start(run.words, place)
        lines = err.splitlines()
        messages = [line for line in lines if line.startswith("mha-inspect: ")]
        found = []
        if REPORT.search(err):
            found.append("a report:\n" + err[:4000])
        if code != run.code:
            found.append(f"exit code {code}, {run.code} expected: {err[-300:]}")
        if len(messages) != (code == 2) or any(not LINE.match(line) for line in lines):
            found.append("one message where it fails, notes and warnings beside it, expected: " + err[:1000])
        if code == 2 and made:
            found.append(f"half a result: {sorted(made)}")
        if code != 2 and bool(made) != run.file:
            found.append(f"files {sorted(made)}")
        if code != 2 and not out and not made or any(not data for data in made.values()):
            found.append("nothing was written")
        self.results[tuple(run.words)] = hash((out, tuple(sorted(made.items()))))
        return [f"{number}: {run.what}: {shlex.join(run.words)}\n    {what}" for what in found]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("--once", action="store_true")
    parser.add_argument("--under", default="")
    parser.add_argument("--only", default="")
    parser.add_argument("--starter", default="")
    parser.add_argument("--searches", default="", metavar="FAMILY")
    parser.add_argument("--share", type=int, default=1, metavar="N")
    arguments = parser.parse_args()
    program = os.path.abspath(arguments.program)
    finds = [f"{name} is listed by the program, and has no row in tests/matrix/commands.py"
             for name in listed(program) if name not in COMMANDS]
    if finds:
        print("\n".join(finds))
        return 1
    with tempfile.TemporaryDirectory(prefix="mha-matrix-") as folder:
        found = inputs.write(folder, program)
        references(folder, program, found, arguments.searches)
        os.mkdir(os.path.join(folder, "out"))
        runs = []
        for name, command in COMMANDS.items():
            if arguments.only not in ("", name):
                continue
            of = of_comparison if command.compares else of_command
            listed_runs = share(arguments.share, name, [(one.kind, run) for one in found for run in of(name, command, one)])
            # Whole models go through the most of the program.
            works = [run for run in listed_runs if run.code == 0]
            runs += sorted(works, key=lambda run: "--text" not in run.words)[:1] if arguments.once else listed_runs
        if arguments.only in ("", "diff") and not arguments.once:
            runs += of_weights()
        processes = os.cpu_count()
        starter = Starter(program, ENVIRONMENT, arguments.starter, shlex.split(arguments.under), processes)
        matrix = Matrix(folder, starter)
        with concurrent.futures.ThreadPoolExecutor(processes) as pool:
            for lines in pool.map(matrix.judge, range(len(runs)), runs):
                finds += lines
        starter.close()
        for run in runs:
            if run.same_as and matrix.results.get(tuple(run.words)) != matrix.results.get(tuple(run.same_as), None):
                finds.append(f"other bytes: {shlex.join(run.words)}")
        if matrix.state() != matrix.first:
            finds.append("the inputs changed")
    print("\n".join(finds))
    print(f"{len(runs)} runs of {len(COMMANDS)} commands on {len(found)} inputs, {len(finds)} finds; "
          f"{sum(matrix.seconds.values()):.0f} s of the processor, most of them "
          + ", ".join(f"{name} {seconds:.0f}" for name, seconds in matrix.seconds.most_common(3)))
    return 1 if finds else 0


if __name__ == "__main__":
    sys.exit(main())
