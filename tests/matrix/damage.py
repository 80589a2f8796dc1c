#!/usr/bin/python3
"""Random runs: commands × inputs × damaged configs, tokenizers and files of tensors.

    /usr/bin/python3 tests/matrix/damage.py PROGRAM [RUNS [SEED [LIBRARY]]]

One file of a tiny input (inputs.py) is changed in one place: a key removed, renamed, of another value,
a tensor of another name, shape or type, bytes cut or changed. Each run ends within its limits with exit
code 0, 1 or 2, one message where that is 2, no half file, nothing temporary; and what is damaged in its
structure (not in a number that could be meant) is refused, or warned of, or gives the same result as
without. What failed is printed with its number; exit code 1 then. LIBRARY: as run.py's --starter.
"""
import collections
import concurrent.futures
import json
import os
import random
import re
import shlex
import shutil
import struct
import sys
import tempfile
import threading

import inputs
from commands import COMMANDS, INSTEAD
from run import ENVIRONMENT, LINE, REPORT, references
from starter import Starter

SECONDS = 20
GARBAGE = ["x", "", -1, -7.5, [], {}, [1, "a"], {"a": 1}, 1e39, 1 << 62, True, "\x1b[2J", 0.3]


def places(value, path=()):
    """Every place in a tree of JSON."""
    if path:
        yield path
    children = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, child in children:
        yield from places(child, path + (key,))


def changed_json(rng, text, known):
    """Another text, what was done, and whether no reading of it is the model that was meant."""
    tree = json.loads(text)
    path = rng.choice([p for p in places(tree) if known is None or p[0] in known])
    parent = tree
    for key in path[:-1]:
        parent = parent[key]
    old, how = parent[path[-1]], rng.choice(["remove", "value", "value", "value", "rename", "cut", "byte"])
    if how == "cut":
        return text[:rng.randrange(len(text) - 2)], "cut", True
    if how == "byte":
        at = rng.randrange(len(text))
        return text[:at] + chr(rng.randrange(1, 127)) + text[at + 1:], f"byte {at}", False
    if how == "remove" or (how == "rename" and not isinstance(parent, dict)):
        del parent[path[-1]]
        return json.dumps(tree), f"without {path}", False
    if how == "rename":
        parent[str(path[-1]) + rng.choice(["_", "2", "s"])] = parent.pop(path[-1])
        return json.dumps(tree), f"{path} by another name", False
    parent[path[-1]] = new = rng.choice(GARBAGE)
    # A number for a number may be meant.
    number = lambda v: isinstance(v, (int, float)) and not isinstance(v, bool)
    wrong = known is not None and number(old) and not number(new) and not isinstance(new, bool)
    return json.dumps(tree), f"{path} is {new!r}", wrong


def changed_tensors(rng, data):
    size = struct.unpack("<Q", data[:8])[0]
    header, rest = json.loads(data[8:8 + size]), data[8 + size:]
    names = [name for name in header if name != "__metadata__"]
    name, how = rng.choice(names), rng.choice(["remove", "rename", "shape", "dtype", "offsets", "cut", "byte", "head"])
    entry = header[name]
    if how == "cut":
        return data[:rng.randrange(len(data))], "cut", True
    if how == "byte":
        at = rng.randrange(len(rest))
        return data[:8 + size] + rest[:at] + bytes([rng.randrange(256)]) + rest[at + 1:], f"data byte {at}", False
    if how == "head":
        at = rng.randrange(8 + size)
        return data[:at] + bytes([rng.randrange(256)]) + data[at + 1:], f"header byte {at}", False
    if how == "remove":
        del header[name]  # and its bytes, so that the file itself is whole
        first, last = entry["data_offsets"]
        rest = rest[:first] + rest[last:]
        for other in header.values():
            if "data_offsets" in other and other["data_offsets"][0] >= last:
                other["data_offsets"] = [at - (last - first) for at in other["data_offsets"]]
    elif how == "rename":
        header[rng.choice([name + "2", "x." + name, name.replace("weight", "wieght"), name.replace("layers.0", "layers.9")])] = header.pop(name)
    elif how == "shape":
        shape = entry["shape"]
        entry["shape"] = rng.choice([shape[::-1], [*shape, 1], [1, *shape], [-1, *shape[1:]], [0], [2 * n for n in shape]])
    elif how == "dtype":
        entry["dtype"] = rng.choice(["F64", "I32", "BF16", "F16", "U8", "X", "F32"])
    else:
        entry["data_offsets"] = [rng.randrange(len(rest)), rng.randrange(2 * len(rest))]
    text = json.dumps(header).encode()
    damaged = how in ("remove", "rename")  # a shape that holds the same numbers may be read as it was meant
    return struct.pack("<Q", len(text)) + text + rest, f"{how} {name}", damaged


def changed_bytes(rng, data):
    if rng.random() < .5:
        return data[:rng.randrange(len(data))], "cut", True
    at = rng.randrange(len(data))
    return data[:at] + bytes([rng.randrange(256)]) + data[at + 1:], f"byte {at}", False


def changed(rng, name, data):
    if name.endswith(".json"):
        known = set(json.loads(data)) if name == "config.json" else None
        text, what, damaged = changed_json(rng, data.decode(), known)
        return text.encode("utf-8", "surrogatepass"), what, damaged
    return changed_tensors(rng, data) if name.endswith(".safetensors") else changed_bytes(rng, data)


def difference(sound, result):
    """The first place where the outputs of two runs part."""
    for name, one, other in [("standard output", sound[1], result[1]),
                             *((n, sound[3].get(n), result[3].get(n)) for n in sorted({*sound[3], *result[3]}))]:
        if one is None or other is None:
            return f"{name} is missing {'without' if one is None else 'with'} the damage"
        if one != other:
            at = next((i for i, (a, b) in enumerate(zip(one, other)) if a != b), min(len(one), len(other)))
            return f"{name} at byte {at} of {len(one)} and {len(other)}: {one[max(at - 40, 0):at + 40]!r} and {other[max(at - 40, 0):at + 40]!r}"
    return "none"


class Runs:
    def __init__(self, root, starter, found):
        self.root, self.starter, self.found = root, starter, [one for one in found if one.words]
        self.sound, self.lock, self.codes = {}, threading.Lock(), collections.Counter()

    def start(self, words, folder):
        out = os.path.join(folder, "result")
        os.mkdir(out)
        line = [word.replace("OUT", os.path.join(out, "r")) for word in words]
        done = self.starter.start(line, folder, folder, 4 * SECONDS)
        made = {name: open(os.path.join(out, name), "rb").read() for name in os.listdir(out)}
        shutil.rmtree(out)
        # Clocks run on while others compute: the processor's time counts.
        code = "takes too long" if done.seconds > SECONDS else done.code
        return code, done.out, done.err, made

    def without_damage(self, words, folder):
        with self.lock:
            if tuple(words) in self.sound:
                return self.sound[tuple(words)]
        result = self.start(words, folder)
        with self.lock:
            self.sound[tuple(words)] = result
        return result

    def one(self, number, seed):
        rng = random.Random(seed * 1_000_003 + number)
        name = rng.choice([n for n, c in COMMANDS.items() if c.works & {one.kind for one in self.found}])
        one = rng.choice([one for one in self.found if one.kind in COMMANDS[name].works])
        words = [name, *one.words, *INSTEAD.get((name, one.kind), COMMANDS[name].needs)]
        if COMMANDS[name].options and rng.random() < .5:
            words += rng.choice(COMMANDS[name].options)
        if COMMANDS[name].compares:
            own = f"{one.name}.own.npz"
            words += ["--against", rng.choice([own, f"{one.name}.edited.npz"]) if one.edit else own]
        with tempfile.TemporaryDirectory(prefix="mha-damage-") as folder:
            for entry in os.listdir(self.root):
                os.symlink(os.path.join(self.root, entry), os.path.join(folder, entry))
            sound = self.without_damage(words, folder)
            target = os.path.join(folder, one.words[0])
            if os.path.isdir(target):
                os.unlink(target)
                shutil.copytree(os.path.join(self.root, one.words[0]), target)
                file = rng.choice([n for n in os.listdir(target) if rng.random() < .9 or n.endswith(".safetensors")] or ["config.json"])
                path = os.path.join(target, file)
            else:
                file, path = one.words[0], target
            with open(path, "rb") as opened:
                data = opened.read()
            data, what, damaged = changed(rng, file, data)
            if os.path.islink(path):
                os.unlink(path)
            with open(path, "wb") as opened:
                opened.write(data)
            result = self.start(words, folder)
            left = [n for base, _, names in os.walk(folder) for n in names if n.startswith(".mha-inspect-")]
        with self.lock:
            self.codes[name, result[0]] += 1
        wrong = list(self.judge(result, sound, damaged, name, what)) + [f"left {left}"] * bool(left)
        return [f"{number}: {file}: {what}: {shlex.join(words)}\n    {text}" for text in wrong]

    def judge(self, result, sound, damaged, name, what):
        code, out, err, made = result
        lines = err.splitlines()
        if code not in (0, 1, 2):
            yield f"exit code {code}: {err[-1500:]}"
            return
        if sound[0] not in (0, 1, 2):
            yield f"without the damage: exit code {sound[0]}: {sound[2][-1500:]}"
            return
        if REPORT.search(err):
            yield "a report: " + err[:3000]
        if sum(line.startswith("mha-inspect: ") for line in lines) != (code == 2) or any(not LINE.match(line) for line in lines):
            yield "one message expected: " + err[:500]
        # A file a layer: those before the damage are whole.
        if code == 2 and made and not (name in ("convert", "dump") and all(re.match(r"r\d+\.", n) for n in made)):
            yield f"half a result: {sorted(made)}"
        # bench times itself; what an inventory lists is what is there, and so is what `convert` copies of a
        # layer that has no X.
        if code == 2 or not damaged or name in ("bench", "info", "stages") or (name == "convert" and what.endswith(".X")):
            return
        told = set(re.findall(r"^(?:note|warning): .*", err, re.M)) - set(re.findall(r"^(?:note|warning): .*", sound[2], re.M))
        if not told and (out, made) != (sound[1], sound[3]):
            yield f"silently another result, exit codes {sound[0]} and {code}: " + difference(sound, result)


def main():
    program = os.path.abspath(sys.argv[1])
    count = int(sys.argv[2]) if len(sys.argv) > 2 else 1000
    seed = int(sys.argv[3]) if len(sys.argv) > 3 else 1
    with tempfile.TemporaryDirectory(prefix="mha-damaged-") as root:
        found = inputs.write(root, program)
        references(root, program, found)
        processes = os.cpu_count()
        starter = Starter(program, ENVIRONMENT, sys.argv[4] if len(sys.argv) > 4 else "", processes=processes)
        runs, finds = Runs(root, starter, found), 0
        with concurrent.futures.ThreadPoolExecutor(processes) as pool:
            for lines in pool.map(runs.one, range(count), [seed] * count):
                finds += len(lines)
                for line in lines:
                    print(line, flush=True)
        starter.close()
    total = collections.Counter(code for (_, code), n in runs.codes.items() for _ in range(n))
    print(f"{count} runs of {len({name for name, _ in runs.codes})} commands, exit codes {dict(total)}, {finds} finds")
    return 1 if finds else 0


if __name__ == "__main__":
    sys.exit(main())
