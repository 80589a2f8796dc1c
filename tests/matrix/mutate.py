#!/usr/bin/python3
"""Random damage to files of tensors: PyTorch's of both forms, ONNX, GGUF, NPZ, NPY, safetensors.

    /usr/bin/python3 tests/matrix/mutate.py PROGRAM [RUNS [SEED]]

One small file is changed at random: bytes flipped, cut off, put in, repeated or exchanged, integers
enlarged, mostly where its header is. `info` and `convert` then read all of it, with a limit on memory
and time. Each run ends with exit code 0, 1 or 2, with one message where that is 2 and no output left
over. A shape that a container's own sizes contradict is an error, not another shape. What failed is
printed with its number, and the file kept; exit code 1 then.
"""
import collections
import concurrent.futures
import io
import json
import os
import random
import re
import resource
import struct
import subprocess
import sys
import tempfile
import time

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
SOURCE = os.path.dirname(os.path.dirname(HERE))
MEMORY = 1 << 30   # address space of a run: more than a small file ever needs
SECONDS = 20       # of the processor
LINE = re.compile(r"^(mha-inspect|warning|note): |^  ")
# Files whose sizes say the shapes; a pickle's view of a storage may have any.
SIZED = (".onnx", ".gguf", ".npz", ".npy", ".safetensors")


def safetensors(tensors):
    header, data = {}, b""
    names = {np.float32: "F32", np.float16: "F16", np.int64: "I64"}
    for name, array in tensors.items():
        header[name] = {"dtype": names[array.dtype.type], "shape": list(array.shape),
                        "data_offsets": [len(data), len(data) + array.nbytes]}
        data += array.tobytes()
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def seeds(folder):
    """Small files of every container: name and bytes."""
    rng = np.random.default_rng(7)
    layer = {f"layers.{n}.{name}": rng.standard_normal(shape).astype(t)
             for n in range(2) for name, shape, t in [("W_q", (4, 6), np.float32), ("W_k", (4, 6), np.float16),
                                                       ("b_q", (6,), np.float32)]} | {"ids": np.arange(5)}
    buffer = io.BytesIO()
    np.savez(buffer, **layer)
    found = [("layer.npz", buffer.getvalue()), ("layer.safetensors", safetensors(layer))]
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **layer)
    found.append(("packed.npz", buffer.getvalue()))
    buffer = io.BytesIO()
    np.save(buffer, layer["layers.0.W_q"])
    found.append(("one.npy", buffer.getvalue()))
    published = os.path.join(SOURCE, "tests/data/published")
    for name in sorted(os.listdir(published)):
        if name.endswith((".pt", ".pth", ".ckpt")):
            found.append((name, open(os.path.join(published, name), "rb").read()))
    found.append(("graph.onnx", open(os.path.join(SOURCE, "data/onnx/model.onnx"), "rb").read()))
    path = os.path.join(folder, "seed.gguf")
    for form in ("F16", "Q8_0"):
        made = subprocess.run([sys.executable, os.path.join(SOURCE, "tests/models/gguf.py"), "model",
                               os.path.join(SOURCE, "data/bard-llama"), path, form], capture_output=True)
        if made.returncode == 0:
            found.append((f"{form}.gguf", open(path, "rb").read()))
    return found


def place(rng, size):
    """A place, mostly near the beginning or the end, where headers and directories are."""
    near = min(size, 4096)
    at = rng.random()
    if at < .5:
        return rng.randrange(near)
    return size - 1 - rng.randrange(near) if at < .8 else rng.randrange(size)


def changed(rng, data):
    """Other bytes, and what was done."""
    data, done = bytearray(data), []
    for _ in range(rng.choice([1, 1, 1, 2, 4])):
        if not data:
            break
        at, how = place(rng, len(data)), rng.choice(["flip", "flip", "byte", "cut", "size", "size", "insert", "repeat", "exchange", "zero"])
        if how == "flip":
            data[at] ^= 1 << rng.randrange(8)
        elif how == "byte":
            data[at] = rng.choice([0, 1, 0x7f, 0x80, 0xff, rng.randrange(256)])
        elif how == "cut":
            del data[at:]
        elif how == "size":
            width = rng.choice([1, 2, 4, 8])
            value = rng.choice([(1 << 8 * width) - 1, 1 << (8 * width - 1), (1 << (8 * width - 1)) - 1, rng.randrange(1 << 8 * width)])
            data[at:at + width] = value.to_bytes(width, rng.choice(["little", "big"]))
        elif how == "insert":
            data[at:at] = bytes(rng.randrange(256) for _ in range(rng.choice([1, 8, 64])))
        elif how == "repeat":
            data[at:at] = data[at:at + rng.choice([1, 16, 256])]
        elif how == "exchange":
            other, length = place(rng, len(data)), rng.choice([1, 4, 16])
            data[at:at + length], data[other:other + length] = data[other:other + length], data[at:at + length]
        else:
            data[at:at + 16] = bytes(len(data[at:at + 16]))
        done.append(f"{how} {at}")
    return bytes(data), ", ".join(done)


def limited():
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS + 1))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


class Runs:
    def __init__(self, program, folder):
        self.program, self.folder, self.seeds = program, folder, seeds(folder)
        self.codes, self.shapes = collections.Counter(), {}
        for name, data in self.seeds:
            path = os.path.join(folder, name)
            with open(path, "wb") as file:
                file.write(data)
            self.shapes[name] = self.listed(self.run(["info", path, "-f", "json", "--threads", "1"])[1])

    def run(self, words):
        done = subprocess.run([self.program, *words], capture_output=True, preexec_fn=limited, timeout=10 * SECONDS)
        return done.returncode, done.stdout.decode("utf-8", "replace"), done.stderr.decode("utf-8", "replace")

    @staticmethod
    def listed(text):
        return {t["name"]: t["shape"] for file in json.loads(text)["files"] for t in file["tensors"]}

    def one(self, number, seed):
        rng = random.Random(seed * 1_000_003 + number)
        name, data = rng.choice(self.seeds)
        data, what = changed(rng, data)
        extension = os.path.splitext(name)[1]
        path = os.path.join(self.folder, f"{number}{extension}")
        with open(path, "wb") as file:
            file.write(data)
        target = os.path.join(self.folder, f"{number}.out.safetensors")
        convert = rng.random() < .3
        words = ["convert", path, "-o", target, "-q"] if convert else ["info", path, "-f", "json", "--threads", "1"]
        try:
            code, out, err = self.run(words)
            wrong = list(self.judge(name, extension, code, out, err, convert))
        except subprocess.TimeoutExpired:
            code, wrong = "late", ["takes too long"]
        if code != 0 and os.path.exists(target):
            wrong.append("half an output")
        if os.path.exists(target):
            os.unlink(target)
        self.codes[extension, code] += 1
        if not wrong:
            os.unlink(path)
        return [f"{number}: {name}: {what}: {words[0]} {path}\n    {text}" for text in wrong]

    def judge(self, name, extension, code, out, err, convert):
        lines = err.splitlines()
        if code not in (0, 1, 2):
            yield f"exit code {code}: {err[-800:]}"
            return
        if "out of memory" in err:
            yield "more memory than the file needs: " + err[:300]
        if (code == 2) != (sum(line.startswith("mha-inspect: ") for line in lines) == 1):
            yield "one message expected: " + err[:500]
        if any(not LINE.match(line) for line in lines):
            yield "a line of another form: " + err[:500]
        if code == 0 and not convert and extension in SIZED:
            there = self.listed(out)
            for tensor, shape in self.shapes[name].items():
                if tensor in there and there[tensor] != shape:
                    yield f"silently another shape: {tensor} {shape} is {there[tensor]}"
                    return


def main():
    program = os.path.abspath(sys.argv[1])
    count = int(sys.argv[2]) if len(sys.argv) > 2 else 1000
    seed = int(sys.argv[3]) if len(sys.argv) > 3 else 1
    folder, finds, began = tempfile.mkdtemp(prefix="mha-mutated-"), 0, time.monotonic()
    runs = Runs(program, folder)
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for lines in pool.map(runs.one, range(count), [seed] * count):
            finds += len(lines)
            for line in lines:
                print(line, flush=True)
    by_container = collections.defaultdict(dict)
    for (extension, code), n in sorted(runs.codes.items(), key=str):
        by_container[extension][code] = n
    for extension, codes in by_container.items():
        print(f"{extension}: exit codes {codes}")
    print(f"{count} runs, {finds} finds, {time.monotonic() - began:.0f} s{'; files in ' + folder if finds else ''}")
    if not finds:
        subprocess.run(["rm", "-r", folder])
    return 1 if finds else 0


if __name__ == "__main__":
    sys.exit(main())
