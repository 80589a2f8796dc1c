"""Starts the program many times: as copies of a process that waits at `main` (starter.cpp), or each from its file."""
import os
import queue
import signal
import socket
import struct
import subprocess
from dataclasses import dataclass


@dataclass
class Done:
    code: int        # the negative number of a signal; -9 for a run that took too long
    out: bytes
    err: str
    seconds: float   # of the processor


class Copies:
    """A process that waits, and runs one copy at a time."""

    def __init__(self, library, program, environment):
        self.arguments = library, program, environment
        self.ours, theirs = socket.socketpair()
        self.process = subprocess.Popen(
            [program], pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL, start_new_session=True,
            env={**environment, "LD_PRELOAD": library, "MATRIX_STARTER": str(theirs.fileno())})
        theirs.close()

    def start(self, words, folder, out, err, seconds):
        request = b"".join(os.fsencode(word) + b"\0" for word in [folder, out, err, "", *words])
        self.ours.settimeout(seconds)
        self.ours.sendall(struct.pack("<I", len(request)) + request)
        answer = b""
        try:
            while len(answer) < 12:
                got = self.ours.recv(12 - len(answer))
                if not got:
                    raise RuntimeError("the process that is copied has ended")
                answer += got
        except TimeoutError:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.close()
            self.__init__(*self.arguments)
            return -signal.SIGKILL, seconds
        status, microseconds = struct.unpack("<iq", answer)
        return os.waitstatus_to_exitcode(status), microseconds / 1e6

    def close(self):
        self.ours.close()
        self.process.wait()


class Files:
    """The program from its file, behind the words of `under`."""

    def __init__(self, program, environment, under):
        self.command, self.environment = [*under, program], environment

    def start(self, words, folder, out, err, seconds):
        with open(out, "wb") as to_out, open(err, "wb") as to_err:
            before = os.times()
            try:
                code = subprocess.run([*self.command, *words], cwd=folder, stdin=subprocess.DEVNULL, stdout=to_out,
                                      stderr=to_err, env=self.environment, timeout=seconds).returncode
            except subprocess.TimeoutExpired:
                code = -signal.SIGKILL
            after = os.times()  # of all runs that ended meanwhile
        return code, after.children_user + after.children_system - before.children_user - before.children_system

    def close(self):
        pass


class Starter:
    """Runs the program, as many at once as there are `processes`: with a library (starter.cpp) as copies."""

    def __init__(self, program, environment, library="", under=(), processes=1):
        self.all = [Copies(library, program, environment) if library else Files(program, environment, under)
                    for _ in range(processes)]
        self.free = queue.SimpleQueue()
        for one in self.all:
            self.free.put(one)

    def start(self, words, folder, place, seconds=600):
        """A run in a folder; what it writes passes through two files in `place`, which are gone afterwards."""
        out, err = (os.path.join(place, name) for name in (".out", ".err"))
        one = self.free.get()
        try:
            code, took = one.start(words, folder, out, err, seconds)
        finally:
            self.free.put(one)
        read = []
        for path in (out, err):
            with open(path, "rb") as file:
                read.append(file.read())
            os.unlink(path)
        return Done(code, read[0], read[1].decode("utf-8", "replace"), took)

    def close(self):
        for one in self.all:
            one.close()
