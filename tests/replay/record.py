#!/usr/bin/python3
"""Records the command lines that the test programs give to the program; tests/replay.sh calls.

A client (client.cpp) stands for the program: it asks the recorder here, waits until what the run will
read is kept, and becomes the program. Kept are the arguments, the environment, the folder, the standard
streams, limits of the system, and whole temporary folders that the line names, as they are before the
run. FOLDER/commands.jsonl has a line for each different command; FOLDER/left-out.tsv what is not kept.
"""
import argparse
import collections
import json
import os
import re
import resource
import shlex
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time

from store import Keeper, Places, Store, TooLarge

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
# Not the program's: where the tests found it, and what a shell adds.
TESTS_OWN = {"MHA", "MHA_TEST_PROGRAM", "PATH", "HOME", "PWD", "OLDPWD", "SHLVL", "_"}
LIMITS = {name[7:].lower(): getattr(resource, name) for name in dir(resource) if name.startswith("RLIMIT_")}
CHANGES_CALLS = "calls of the system are made to fail (LD_PRELOAD)"


class LeftOut(Exception):
    """Why a command is not kept."""


def read(path):
    with open(path, "rb") as file:
        return file.read()


def limits_of(pid):
    return {name: resource.prlimit(pid, number) for name, number in LIMITS.items()}


class Run:
    """A run that is about to start, as the system describes the client that stands for it."""

    def __init__(self, pid):
        self.pid, proc = pid, f"/proc/{pid}"
        self.words = read(proc + "/cmdline").split(b"\0")[1:-1]
        variables = (one.partition(b"=") for one in read(proc + "/environ").split(b"\0") if one)
        self.environment = {name: value for name, _, value in variables}
        self.folder = os.fsencode(os.readlink(proc + "/cwd"))
        status = dict(line.split(":\t") for line in read(proc + "/status").decode().splitlines() if ":\t" in line)
        ignored = int(status["SigIgn"], 16)
        self.ignored = [number for number in range(1, 65) if ignored >> (number - 1) & 1]
        self.streams = [self.stream(number) for number in range(3)]
        self.input = b""

    def stream(self, number):
        """[kind, path, whether it is written at its end]"""
        try:
            path = os.readlink(f"/proc/{self.pid}/fd/{number}")
        except FileNotFoundError:
            return ["closed", "", False]
        if path.startswith(("/dev/pts/", "/dev/tty")):
            raise LeftOut("a terminal")
        if path.startswith("/dev/"):
            return ["device", path, False]
        if path.endswith(" (deleted)"):
            return ["nameless", path, False]
        if not path.startswith("/"):
            return ["pipe", path, False]
        flags = re.search(rb"flags:\s*(\d+)", read(f"/proc/{self.pid}/fdinfo/{number}"))
        return ["file", path, bool(int(flags[1], 8) & os.O_APPEND)]

    def reads_input(self):
        return self.streams[0][0] == "pipe" and any(
            re.search(rb"(^|=)-$|/dev/stdin|/dev/fd/0|/proc/self/fd/0", word) for word in self.words)


class Recorder:
    def __init__(self, folder, temporary):
        self.folder, self.temporary = folder, temporary
        self.store = Store(folder)
        self.places = Places(temporary, ROOT)
        self.keeper = Keeper(self.store, self.places)
        self.limits = limits_of(0)
        self.lock = threading.Lock()
        self.commands, self.left_out = {}, collections.defaultdict(list)
        self.count = 0
        self.socket = socket.socket(socket.AF_UNIX)

    def listen(self, path):
        self.socket.bind(path)
        os.chmod(path, 0o777)
        self.socket.listen(64)
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            client, _ = self.socket.accept()
            threading.Thread(target=self.answer, args=(client,), daemon=True).start()

    def answer(self, client):
        with client:
            pid, user, _ = struct.unpack("3i", client.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
            words = read(f"/proc/{pid}/cmdline").split(b"\0")[1:-1]
            reason = ""
            try:
                if user != os.getuid():
                    raise LeftOut("another user's run")
                run = Run(pid)
                if run.reads_input():
                    self.take_input(run, client)
                with self.lock:
                    self.keep(run)
            except LeftOut as left:
                reason = str(left)
            except TooLarge:
                reason = "a file of more than 64 MB"
            except OSError as error:  # of a file that was gone before it was read
                reason = f"not kept: {error.strerror}"
            if reason:
                self.left_out[reason].append(shlex.join(os.fsdecode(self.places.hidden(word)) for word in words))
            client.sendall(b"g")

    @staticmethod
    def take_input(run, client):
        client.sendall(b"i")
        size, = struct.unpack("<Q", client.recv(8, socket.MSG_WAITALL))
        while len(run.input) < size:
            run.input += client.recv(min(size - len(run.input), 1 << 20))
        if size >= 64 << 20:
            raise LeftOut("an input without an end")

    def keep(self, run):
        if b"LD_PRELOAD" in run.environment:
            raise LeftOut(CHANGES_CALLS)
        if any(re.search(rb"/dev/fd/[3-9\d]|/dev/fd/\d\d|/proc/(self|\d+)/fd", word) for word in run.words):
            raise LeftOut("a pipe by its number")
        self.count += 1
        environment = {name: value for name, value in run.environment.items() if os.fsdecode(name) not in TESTS_OWN}
        said = b"\0".join([run.folder, *run.words, *environment.values(), run.input,
                           *(os.fsencode(stream[1]) for stream in run.streams if stream[0] == "file")])
        tops = self.tops(said)
        names = {}  # what makes two runs of a test differ, and is to be the same in each record
        for number, top in enumerate(tops):
            names[top] = re.sub(r"[A-Za-z0-9_]{6,8}$", "", top) + str(number)
        for number, name in enumerate(dict.fromkeys(re.findall(rb"/(tmp[a-z0-9_]{8})(?=[/\0]|$)", said))):
            names[os.fsdecode(name)] = f"tmp-{number}"
        kept = {top: self.keeper.folder(os.path.join(self.temporary, top), lambda name: name in names, names)
                for top in tops}
        specials = [path for entries, _ in kept.values() for path, kind, _, _ in entries if kind == "special"]
        if any(os.fsencode(os.path.basename(path)) in said for path in specials):
            raise LeftOut("a pipe by its name")
        if any(names_place for _, names_place in kept.values()):  # a text that a name cannot be changed in
            names = {}
            kept = {top: self.keeper.folder(os.path.join(self.temporary, top), lambda name: os.fsencode(name) in said)
                    for top in tops}

        def text(data):
            data = self.places.hidden(data)
            for name, called in names.items():
                data = data.replace(os.fsencode(name), os.fsencode(called))
            return os.fsdecode(data)

        limits = {name: value for name, value in limits_of(run.pid).items() if value != self.limits[name]}
        command = {
            "words": [text(word) for word in run.words], "folder": text(run.folder),
            "environment": {os.fsdecode(name): text(value) for name, value in sorted(environment.items())},
            "input": self.input_of(run, text), "output": self.output_of(run, 1, text),
            "errors": self.output_of(run, 2, text), "limits": limits, "ignored": run.ignored,
            "folders": {names.get(top, top): self.keeper.put(entries) for top, (entries, _) in kept.items()}}
        key = json.dumps(command, sort_keys=True)
        if key not in self.commands:
            self.commands[key] = {**command, "of": tops[0] if tops else "", "times": 0}
        self.commands[key]["times"] += 1

    def tops(self, said):
        """The folders and files right in the temporary folder that are named."""
        found = re.findall(re.escape(os.fsencode(self.temporary)) + rb"/([^/\0\s'\":,;=()]+)", said)
        return [name for name in dict.fromkeys(map(os.fsdecode, found))
                if os.path.lexists(os.path.join(self.temporary, name))]

    def input_of(self, run, text):
        kind, path, _ = run.streams[0]
        if kind == "pipe":
            return ["pipe", self.store.put(os.fsencode(text(run.input)))] if run.reads_input() else ["device", "/dev/null"]
        if kind in ("closed", "device"):
            return [kind, path]
        if kind == "file" and path.startswith((self.temporary, ROOT)):
            return ["file", text(os.fsencode(path))]
        return ["content", self.store.put(read(f"/proc/{run.pid}/fd/0"))]

    def output_of(self, run, number, text):
        kind, path, appends = run.streams[number]
        if number == 2 and kind == "pipe" and path == run.streams[1][1]:
            return ["with the output", "", False]
        if kind == "nameless" or kind == "file" and not path.startswith((self.temporary, ROOT)):
            kind = "pipe"
        return [kind, text(os.fsencode(path)) if kind != "pipe" else "", appends]

    def write(self):
        """The commands of a test follow one another: most have the folder of the one before."""
        files = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True).stdout
        source = {}
        for name in map(os.fsdecode, files.split(b"\0")[:-1]):
            path = os.path.join(ROOT, name)
            if not os.path.lexists(path):
                continue
            for end in (at for at, letter in enumerate(name) if letter == "/"):
                source[name[:end]] = ("folder", 0o755, "")
            source[name] = self.keeper.folder(path)[0][0][1:]
        tests = {}
        for command in self.commands.values():
            tests.setdefault(command["of"], []).append(command)
        with open(os.path.join(self.folder, "commands.jsonl"), "w", encoding="utf-8") as out:
            for command in (command for commands in tests.values() for command in commands):
                print(json.dumps(command), file=out)
        with open(os.path.join(self.folder, "left-out.tsv"), "w", encoding="utf-8", errors="surrogateescape") as out:
            for reason, lines in sorted(self.left_out.items()):
                for line in lines:
                    print(reason, line.replace("\t", " ").replace("\n", " ")[:500], sep="\t", file=out)
        with open(os.path.join(self.folder, "source.json"), "w", encoding="utf-8") as out:
            json.dump([[path, *entry] for path, entry in source.items()], out)


def test_names(program, *words):
    listed = subprocess.run([program, *words, "--list-test-names-only"], capture_output=True, text=True).stdout
    return [line for line in listed.splitlines() if line.strip()]


def run_tests(build, only, jobs, temporary, folder, environment):
    """Each process takes every n-th test; what they say goes into the record, as failures are to be looked at."""
    program = os.path.join(build, "tests", "cli-tests")
    names = [name for name in test_names(program) if re.search(only, name)]
    processes = []
    for job in range(jobs):
        listed = os.path.join(folder, f"tests-{job}")
        with open(listed, "w", encoding="utf-8") as file:
            file.writelines(re.sub(r'([\\,"\[])', r"\\\1", name) + "\n" for name in names[job::jobs])
        if len(test_names(program, "--input-file", listed)) != len(names[job::jobs]):
            raise SystemExit(f"{program} does not find each test that {listed} names")
        with open(listed + ".log", "w", encoding="utf-8") as log:
            processes.append(subprocess.Popen([program, "--input-file", listed], cwd=build, env=environment,
                                              stdin=subprocess.DEVNULL, stdout=log, stderr=log))
    for job, process in enumerate(processes):
        process.wait()
        with open(os.path.join(folder, f"tests-{job}.log"), encoding="utf-8", errors="replace") as log:
            print(log.read().rstrip().rsplit("\n", 1)[-1], f"(tests-{job}.log)")
    return len(names)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder")
    parser.add_argument("--build", default=os.path.join(ROOT, "build", "dev"))
    parser.add_argument("--tests", default="", metavar="PATTERN", help="of the test programs' cases, these alone")
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)))
    options = parser.parse_args()
    folder, build = os.path.abspath(options.folder), os.path.abspath(options.build)
    if os.path.exists(os.path.join(folder, "commands.jsonl")):
        parser.error(f"{folder} is a record; remove it first")
    begun = time.monotonic()
    temporary = os.path.realpath(tempfile.mkdtemp(prefix="mha-record-"))
    os.makedirs(folder, exist_ok=True)
    place = tempfile.mkdtemp(prefix="mha-client-")  # a socket's path is short
    os.chmod(place, 0o755)  # tests run the program as other users, too
    os.mkdir(os.path.join(place, "bin"))
    subprocess.run([os.environ.get("CXX", "c++"), "-std=c++20", "-O1", "-static", "-o", os.path.join(place, "bin", "mha-inspect"),
                    os.path.join(HERE, "client.cpp")], check=True)
    os.symlink(os.path.join(build, "app", "mha-inspect"), os.path.join(place, "program"))
    recorder = Recorder(folder, temporary)
    recorder.listen(os.path.join(place, "socket"))
    environment = {name: value for name, value in os.environ.items()
                   if name in ("PATH", "HOME") or name.startswith(("LC_", "LANG"))}
    environment |= {"TMPDIR": temporary, "MHA_TEST_PROGRAM": os.path.join(place, "bin", "mha-inspect")}
    cases = run_tests(build, options.tests, options.jobs, temporary, folder, environment)
    recorder.write()
    shutil.rmtree(place)
    shutil.rmtree(temporary, ignore_errors=True)
    left_out = sum(map(len, recorder.left_out.values()))
    print(f"{cases} tests: {recorder.count} command lines, {len(recorder.commands)} of them different; {left_out} left "
          f"out; {time.monotonic() - begun:.0f} s")
    for reason, lines in sorted(recorder.left_out.items()):
        print(f"  {len(lines)} left out: {reason}")
    sys.stdout.flush()
    os.execv(sys.executable, [sys.executable, "-B", os.path.join(HERE, "replay.py"), "--record", folder, "--prove", "3",
                              "--old", os.path.join(build, "app", "mha-inspect"), "--jobs", str(options.jobs)])


if __name__ == "__main__":
    main()
