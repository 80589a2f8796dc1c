"""Runs a recorded command line in a fresh copy of its folder, and gathers what it did."""
import json
import os
import re
import resource
import shutil
import signal
import stat
import subprocess
import time
from dataclasses import dataclass, field

from store import Places

LONG_AGO = 1_500_000_000 * 10**9  # the time of change of files that no run has written, in ns
LIMITS = {name[7:].lower(): getattr(resource, name) for name in dir(resource) if name.startswith("RLIMIT_")}


@dataclass
class Outcome:
    """Names of streams ("exit", "stdout", "stderr", "file PATH") and what was found there."""
    streams: dict = field(default_factory=dict)
    seconds: float = 0


class Place:
    """A folder in which commands run one after another; what one changes is mended before the next."""

    def __init__(self, store, source, folder):
        self.store, self.top = store, folder
        self.source, self.temporary = os.path.join(folder, "source"), os.path.join(folder, "t")
        self.places = Places(self.temporary, self.source)
        self.kept, self.signatures = {}, {}
        os.makedirs(self.temporary)
        os.makedirs(self.source)
        for path, entry in source.items():
            self.make(os.path.join(self.source, path), entry)
        self.source_entries = source
        self.source_folders = [base for base, _, _ in os.walk(self.source)]
        self.source_state = self.state_of_source()

    def state_of_source(self):
        return [os.stat(folder).st_mtime_ns for folder in self.source_folders]

    def make(self, path, entry):
        kind, mode, content = entry
        if kind == "folder":
            os.makedirs(path, exist_ok=True)
            os.chmod(path, mode)
            return
        if kind == "link":
            os.symlink(os.fsdecode(self.places.shown(os.fsencode(content))), path)
            return
        if kind == "special":
            os.mkfifo(path, mode)
            return
        data = self.store.get(content)
        with open(path, "wb") as file:
            file.write(self.places.shown(data) if kind == "text" else data)
        os.chmod(path, mode)
        os.utime(path, ns=(LONG_AGO, LONG_AGO))

    @staticmethod
    def remove(path):
        if os.path.isdir(path) and not os.path.islink(path):
            shutil.rmtree(path)
        elif os.path.lexists(path):
            os.unlink(path)

    @staticmethod
    def signature(path):
        state = os.lstat(path)
        mode = state.st_mode
        return (mode,) if stat.S_ISDIR(mode) else (mode, state.st_ino, state.st_size, state.st_mtime_ns)

    def prepare(self, folders):
        """Makes the temporary folder what it was before the run; `folders`: {name: its entries' content}."""
        wanted = {}
        for name, content in folders.items():
            for path, entry in self.store.entries(content).items():
                wanted[os.path.join(name, path) if path else name] = entry
        for path in sorted(self.kept.keys() - wanted.keys(), reverse=True):
            self.remove(os.path.join(self.temporary, path))
        changed = [path for path, entry in wanted.items() if self.kept.get(path) != entry]
        for path in sorted(changed):
            full = os.path.join(self.temporary, path)
            if path in self.kept and not (wanted[path][0] == "folder" and os.path.isdir(full)):
                self.remove(full)
            self.make(full, wanted[path])
            self.signatures[path] = self.signature(full)
        self.kept = wanted

    def found(self):
        """{path: signature} of all that the temporary folder has."""
        found = {}

        def visit(folder, inside):
            for name in os.listdir(folder):
                path, within = os.path.join(folder, name), os.path.join(inside, name)
                found[within] = self.signature(path)
                if stat.S_ISDIR(found[within][0]):
                    visit(path, within)

        visit(self.temporary, "")
        return found

    def changes(self):
        """What the run has written: {path: bytes}; what it left is forgotten, so that `prepare` mends it."""
        found, files = self.found(), {}
        for path in self.kept.keys() - found.keys():
            files[path] = b"(gone)\n"
        for path, signature in found.items():
            if path in self.kept and self.signatures[path] == signature:
                continue
            full = os.path.join(self.temporary, path)
            if stat.S_ISDIR(signature[0]):
                files[path] = b"(a folder)\n"
            elif stat.S_ISLNK(signature[0]):
                files[path] = b"(a link to " + os.fsencode(os.readlink(full)) + b")\n"
            elif stat.S_ISREG(signature[0]):
                with open(full, "rb") as file:
                    files[path] = file.read()
            else:
                files[path] = b"(no file)\n"
        self.kept = {path: self.kept[path] if path in self.kept and path not in files else None
                     for path in found.keys() | self.kept.keys()}
        if self.state_of_source() != self.source_state:
            self.mend_source(files)
        return files

    def mend_source(self, files):
        for base, folders, names in os.walk(self.source):
            for name in folders + names:
                path = os.path.relpath(os.path.join(base, name), self.source)
                if path not in self.source_entries:
                    files["source/" + path] = b"(new)\n"
        for path in self.source_entries.keys():
            if not os.path.lexists(os.path.join(self.source, path)):
                files["source/" + path] = b"(gone)\n"
        shutil.rmtree(self.source)
        os.makedirs(self.source)
        for path, entry in self.source_entries.items():
            self.make(os.path.join(self.source, path), entry)
        self.source_state = self.state_of_source()

    def shown(self, text):
        return self.places.shown(os.fsencode(text))

    def opened(self, stream, number):
        """A descriptor of a standard stream, or what subprocess calls it."""
        kind, path, *more = stream
        if kind == "device":
            return os.open(path, os.O_RDONLY if number == 0 else os.O_WRONLY)
        if kind == "file":
            flags = os.O_RDONLY if number == 0 else os.O_WRONLY | os.O_CREAT | (os.O_APPEND if more[0] else os.O_TRUNC)
            return os.open(self.shown(path), flags, 0o600)
        if kind == "with the output":
            return subprocess.STDOUT
        return subprocess.PIPE if kind != "closed" else None

    def run(self, program, command, seconds=600):
        self.prepare(command["folders"])
        kinds = [command[name][0] for name in ("input", "output", "errors")]
        data = None
        if kinds[0] in ("pipe", "content"):
            data = self.places.shown(self.store.get(command["input"][1]))
        streams = [subprocess.PIPE if data is not None else self.opened(command["input"], 0),
                   self.opened(command["output"], 1), self.opened(command["errors"], 2)]

        def before():
            for number, kind in enumerate(kinds):
                if kind == "closed":
                    os.close(number)
            for name, (soft, hard) in command["limits"].items():
                resource.setrlimit(LIMITS[name], (soft, hard))
            for number in command["ignored"]:
                signal.signal(number, signal.SIG_IGN)

        environment = {"PATH": "/usr/bin:/bin", "HOME": "/nonexistent", "TMPDIR": self.temporary}
        for name, value in command["environment"].items():
            environment[name] = self.shown(value)
        words = [b"mha-inspect", *map(self.shown, command["words"])]
        begun = time.monotonic()
        process = subprocess.Popen(
            words, executable=program, cwd=self.shown(command["folder"]), env=environment, stdin=streams[0],
            stdout=streams[1], stderr=streams[2], start_new_session=True,
            preexec_fn=before if "closed" in kinds or command["limits"] or command["ignored"] else None)
        for stream in streams:
            if stream is not None and stream >= 0:
                os.close(stream)
        try:
            out, err = process.communicate(data, timeout=seconds)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            out, err = process.communicate()
            process.returncode = f"none after {seconds:.0f} s"
        outcome = Outcome({"exit": str(process.returncode).encode(), "stdout": out or b"", "stderr": err or b""},
                          time.monotonic() - begun)
        for path, content in sorted(self.changes().items()):
            outcome.streams["file " + path] = content
        top = os.fsencode(self.top)  # of the same length wherever it is, and unlike it
        outcome.streams = {name: data.replace(top, re.sub(rb"[^/]", b"@", top)) for name, data in outcome.streams.items()}
        return outcome


def read_source(folder):
    with open(os.path.join(folder, "source.json"), encoding="utf-8") as file:
        return {path: tuple(entry) for path, *entry in json.load(file)}
