#!/usr/bin/python3
"""Runs recorded command lines with two programs and compares all that they do; tests/replay.sh calls.

Exit code, output, errors and written files must be equal byte by byte, but for masks.tsv (times and the
like) and changes.tsv (what was changed, and why). What the old program did is remembered in the record by
its hash: the old program runs again where the new one did something else.
"""
import argparse
import collections
import concurrent.futures
import hashlib
import json
import multiprocessing
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time

from changes import Changes, Masks, NoTable, differences
from start import Place, read_source
from store import Store

HERE = os.path.dirname(os.path.abspath(__file__))
AT_ONCE = 40  # command lines that a process takes
LONGEST = 300  # seconds of a run
SLOW = 60      # seconds of a run that a record leaves out
UNSTEADY = "unsteady.tsv"


def line_of(command):
    return shlex.join(["mha-inspect", *command["words"]])


def key_of(command):
    """Names a command line in lists, whatever else a record has."""
    kept = {name: value for name, value in command.items() if name not in ("of", "times")}
    return hashlib.blake2b(json.dumps(kept, sort_keys=True).encode(), digest_size=6).hexdigest()


def hash_of(streams):
    total = hashlib.blake2b(digest_size=16)
    for name, data in sorted(streams.items()):
        total.update(f"{name}\0{len(data)}\0".encode("utf-8", "surrogateescape") + data)
    return total.hexdigest()


class Worker:
    """What a process has of its own."""

    def __init__(self, options, top, number):
        self.options = options
        self.store = Store(options.record)
        self.masks = Masks(options.masks)
        self.place = Place(self.store, read_source(options.record), os.path.join(top, f"{number:02d}"))

    def outcome(self, program, command, seconds=LONGEST):
        outcome = self.place.run(program, command, seconds)
        return self.masks.masked(line_of(command), outcome.streams), outcome.seconds

    def compare(self, command, remembered):
        """{kind, hash of the old one's, differences}"""
        new, seconds = self.outcome(self.options.new, command)
        hashed = hash_of(new)
        if hashed == remembered:
            return {"kind": "equal", "hash": hashed, "seconds": seconds}
        old, took = self.outcome(self.options.old, command)
        result = {"kind": "equal", "hash": hash_of(old), "seconds": seconds + took}
        found = differences(old, new)
        if not found:
            return result
        again, _ = self.outcome(self.options.old, command)
        result["kind"] = "DIFFERENT" if again == old else "unsteady"
        result["found"] = found if again == old else differences(old, again)
        if self.options.keep:
            self.write(command, {"old": old, "new": new})
        return result

    def prove(self, command):
        """Whether the old program does the same twice."""
        first, seconds = self.outcome(self.options.old, command, SLOW)
        result = {"kind": "equal", "hash": hash_of(first), "seconds": seconds}
        if first["exit"].startswith(b"none"):
            return {**result, "kind": "slow"}
        for _ in range(self.options.prove - 1):
            other, took = self.outcome(self.options.old, command, SLOW)
            result["seconds"] += took
            if found := differences(first, other):
                return {**result, "kind": "unsteady", "found": found}
        return result

    def write(self, command, sides):
        top = os.path.join(self.options.keep, key_of(command))
        os.makedirs(top, exist_ok=True)
        with open(os.path.join(top, "command.json"), "w", encoding="utf-8") as file:
            json.dump({"line": line_of(command), **command}, file, indent=1)
        for side, streams in sides.items():
            for name, data in streams.items():
                path = os.path.join(top, side, name.replace("file ", "files/"))
                os.makedirs(os.path.dirname(path), exist_ok=True)
                with open(path, "wb") as file:
                    file.write(data)


worker = None


def start_worker(options, top, number):
    global worker
    with number.get_lock():
        own = number.value
        number.value += 1
    worker = Worker(options, top, own)


def work(commands):
    """Results of some command lines, each (key, result)."""
    results = []
    for command, remembered in commands:
        try:
            result = worker.prove(command) if worker.options.prove else worker.compare(command, remembered)
        except Exception as error:  # of the record, not of the programs
            result = {"kind": "failed", "why": f"{type(error).__name__}: {error}"}
        results.append((command, result))
    return results


def identity(program):
    """Of a program, the libraries that it loads, and the processor that they choose their kernels by."""
    total = hashlib.blake2b(digest_size=8)
    listed = subprocess.run(["ldd", program], capture_output=True, text=True).stdout
    for path in [program, *re.findall(r"(/\S+) \(0x", listed)]:
        with open(path, "rb") as file:
            total.update(file.read())
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        total.update("".join(sorted({line for line in file if line.startswith(("model name", "flags"))})).encode())
    return total.hexdigest()


class Record:
    def __init__(self, options):
        self.folder = options.record
        with open(os.path.join(self.folder, "commands.jsonl"), encoding="utf-8") as file:
            self.commands = [json.loads(line) for line in file]
        unsteady = self.path(UNSTEADY)
        self.unsteady = {}
        if os.path.exists(unsteady):
            with open(unsteady, encoding="utf-8") as file:
                self.unsteady = dict(line.rstrip("\n").split("\t")[:2] for line in file)
        self.outcomes = self.path(f"outcomes-{identity(options.old)}-{len(tempfile.gettempdir())}.tsv")
        self.remembered = {}
        if os.path.exists(self.outcomes):
            with open(self.outcomes, encoding="utf-8") as file:
                self.remembered = {key: (hashed, float(seconds)) for key, hashed, seconds in
                                   (line.split("\t") for line in file)}

    def path(self, name):
        return os.path.join(self.folder, name)

    def chosen(self, options):
        """Those asked for, in lists of neighbours, the longest first."""
        share, of = options.share
        lists, last = [], None
        for command in self.commands:
            key = key_of(command)
            if key in self.unsteady or options.only and not re.search(options.only, f"{key} {line_of(command)}"):
                continue
            if last != command["of"] or len(lists[-1]) == AT_ONCE:
                lists.append([])
                last = command["of"]
            lists[-1].append((command, self.remembered.get(key, ("", 0))[0]))
        lists = lists[share - 1::of]
        seconds = {id(some): sum(self.remembered.get(key_of(command), ("", 0.01))[1] for command, _ in some) for some in lists}
        return sorted(lists, key=lambda some: -seconds[id(some)])

    def remember(self, results):
        new = [(key_of(command), result) for command, result in results if result["kind"] in ("equal", "DIFFERENT")]
        try:
            with open(self.outcomes, "a", encoding="utf-8") as file:
                for key, result in new:
                    if self.remembered.get(key, ("",))[0] != result["hash"]:
                        print(key, result["hash"], f"{result['seconds']:.3f}", sep="\t", file=file)
        except OSError:
            pass  # of somebody else's record: the old program runs each time

    def leave_out(self, results):
        """What does not do the same twice."""
        with open(self.path(UNSTEADY), "a", encoding="utf-8", errors="surrogateescape") as file:
            for command, result in results:
                if result["kind"] == "equal":
                    continue
                why = {"unsteady": "differs from run to run", "slow": f"takes more than {SLOW} s"}.get(
                    result["kind"], result.get("why", "").replace("\t", " ").replace("\n", " "))
                streams = ", ".join(difference.stream for difference in result.get("found", []))
                line = line_of(command).replace("\t", " ").replace("\n", " ")
                print(key_of(command), why, streams, line[:500], sep="\t", file=file)


def say(command, title, found):
    print(f"{title} {key_of(command)}: (cd {command['folder']}) {line_of(command)[:2000]}")
    for difference in found:
        print(f"  {difference}")
    sys.stdout.flush()


class Judge:
    def __init__(self, options):
        self.options, self.changes = options, Changes(options.changes, options.words)
        self.counts = collections.Counter()

    def take(self, command, result):
        kind = result["kind"]
        if kind == "DIFFERENT":
            if rows := self.changes.explain(line_of(command), result["found"]):
                kind = "changed"
                for row in rows:
                    self.changes.used[row] += 1
        self.counts[kind] += 1
        if kind in ("failed", "slow"):
            print(f"{kind} {key_of(command)}: {line_of(command)[:500]}\n  {result.get('why', '')}")
        elif kind in ("DIFFERENT", "unsteady") and self.counts[kind] <= self.options.show:
            say(command, kind, result["found"])

    def summary(self, seconds, whole):
        count = self.counts
        print(f"{sum(count.values())} command lines: {count['equal']} equal, {count['changed']} changed as a row says, "
              f"{count['DIFFERENT']} DIFFERENT, {count['unsteady']} unsteady, {count['failed']} failed; {seconds:.0f} s")
        bad = count["DIFFERENT"] + count["failed"]
        if whole:
            for number, command, stream, *_ in self.changes.unused():
                print(f"{self.options.changes}:{number}: no command line needs this row: {command}, {stream}")
                bad += 1
        return 1 if bad else 0


def left_out(record):
    """Of each reason, how many."""
    path = record.path("left-out.tsv")
    with open(path, encoding="utf-8") as file:
        reasons = collections.Counter(line.split("\t")[0] for line in file)
    reasons.update(record.unsteady.values())
    if reasons:
        print("left out: " + "; ".join(f"{count} {reason}" for reason, count in sorted(reasons.items())))


def parse():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--old", required=True, metavar="PROGRAM")
    parser.add_argument("--new", metavar="PROGRAM")
    parser.add_argument("--record", required=True, metavar="FOLDER")
    parser.add_argument("--only", default="", metavar="PATTERN", help="command lines that it is found in, or their names")
    parser.add_argument("--share", default="1/1", metavar="I/N", help="the I-th of N parts")
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)), metavar="N")
    parser.add_argument("--keep", metavar="FOLDER", help="write what both did there, where they differ")
    parser.add_argument("--show", type=int, default=40, metavar="N", help="differences that are printed")
    parser.add_argument("--changes", default=os.path.join(HERE, "changes.tsv"), metavar="FILE")
    parser.add_argument("--words", default=os.path.join(HERE, "words.tsv"), metavar="FILE")
    parser.add_argument("--masks", default=os.path.join(HERE, "masks.tsv"), metavar="FILE")
    parser.add_argument("--prove", type=int, default=0, metavar="N", help="run the old program alone, N times, and list "
                        "in the record what differs from run to run")
    options = parser.parse_args()
    found = re.fullmatch(r"(\d+)/(\d+)", options.share)
    if not found or not 1 <= int(found[1]) <= int(found[2]):
        parser.error(f"--share is '{options.share}'; I/N expected, I from 1 to N")
    options.share = int(found[1]), int(found[2])
    for name in ("old", "new", "record", "keep"):
        if getattr(options, name):
            setattr(options, name, os.path.abspath(getattr(options, name)))
    if not options.new and not options.prove:
        parser.error("--new is missing")
    if not os.path.exists(os.path.join(options.record, "commands.jsonl")):
        parser.error(f"{options.record} is no record; `sh tests/replay.sh --make-record FOLDER` makes one")
    for program in filter(None, (options.old, options.new)):
        if subprocess.run([program, "--version"], capture_output=True).returncode != 0:
            parser.error(f"{program} does not run")
    return options


def main():
    options = parse()
    begun = time.monotonic()
    record, judge = Record(options), Judge(options)
    lists = record.chosen(options)
    top = tempfile.mkdtemp(prefix="mha-replay-")
    try:
        number = multiprocessing.Value("i", 0)
        with concurrent.futures.ProcessPoolExecutor(options.jobs, initializer=start_worker,
                                                    initargs=(options, top, number)) as pool:
            for done in concurrent.futures.as_completed([pool.submit(work, some) for some in lists]):
                for command, result in done.result():
                    judge.take(command, result)
                record.remember(done.result())
                if options.prove:
                    record.leave_out(done.result())
    finally:
        shutil.rmtree(top, ignore_errors=True)
    code = judge.summary(time.monotonic() - begun, not options.only and options.share == (1, 1) and not options.prove)
    left_out(record)
    return 0 if options.prove else code


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (NoTable, OSError, concurrent.futures.BrokenExecutor) as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        sys.exit(2)
