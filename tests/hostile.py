#!/usr/bin/env python3
"""Hostile runs: every command on files, names, links, devices, outputs and settings that a user would
not choose and somebody else might.

    tests/hostile.py PROGRAM [RUNS [SEED]]

After each run: no file outside the output's place changed and none of the inputs did, nothing
temporary is left, the exit code is 0, 1 or 2, and 2 comes with exactly one message; no control
character reached standard error or text; at most 2 s of processor time and 64 MiB more than an
ordinary run. Prints what failed with the line that does it again; exit code 1 then.
"""
import collections
import json
import os
import random
import re
import resource
import shutil
import signal
import socket
import stat
import struct
import subprocess
import sys
import tempfile
import zipfile

SECONDS, MEBIBYTES = 2.0, 64
WORDS = ["layers.{}.{}", "model.layers.{}.self_attn.{}", "h.{}.attn.{}", "encoder/layer_{}/{}"]
EVIL = ["../../victim/l", "/tmp/x", "..", ".", "a/../../b", "\x1b[2J", "\u202eevil", "%2e%2e", "{head}",
        "a\\..\\b", "x" * 300, "\ufffe", "\u0085", "a\nb", "~", "-o", "$(id)", "con.", "é", " ", ""]
LABELS = ["the", "\x1b[31m", "\u009b2J", "\u202e", "\u2066x", "\ufffe", "\uffff", "\x00", "\x7f", "\u2028",
          "a,\"b", "\t", "\r", "\U0001fffe", "=1+1", "שלום", "x" * 2000, "", "\u061c", "<b>&"]
MODEL_RUNS = ["in/model --ids 1,2,0", "in/model --ids 1,2 --ids 3", "in/model --ids in/ids.npy", "in/model --text a,b",
              "in/model --text-file in/labels.txt", "in/model --ids 1,2,3 --layer 0", "in/model --ids 9,1",
              "in/model --ids 1,2,0,1,2,0,1,2,0", "in/model --text-file /dev/zero", "in/model --ids in/layer.json"]
EDGES = ["1e39", "-1e39", "3.4e38", "3.5e38", "1e-46", "1e-320", "0", "-0", "nan", "inf", "-inf", "1e400", "1", "7",
         "-1", "2147483648", "9223372036854775807", "18446744073709551616", "1e5", "", "x", "0x10", "١"]
NUMBERS = ["--scale", "--softcap", "--num-heads", "--num-kv-heads", "--window-left", "--window-right", "--rope-base",
           "--rope-dims", "--rope-offset", "--qk-norm-eps", "--input-norm-eps", "--head", "--query", "--key",
           "--batch", "--precision", "--top", "--cells", "--vmin", "--vmax", "--layer", "--max-size", "--near"]
COMMANDS = {  # and the options that only they have
    "info": ["--headers"], "stages": [], "show": ["-s weights", "-s output", "-s q", "-f csv", "-f tsv", "-f json",
    "-f ndjson", "-f npy -s output", "--matrix -f csv -s scores"], "dump": ["-s weights", "-s q,k", "--dump-dtype f16",
    "--part 1/2", "--resume"], "map": ["-s scores", "-f svg", "-f png", "--color-scale log"], "report": [],
    "explain": ["--query 0", "--query 1 --head 0", "-f json"], "stats": ["-f csv", "-f json", "--measures all"],
    "diff": [], "diagnose": [], "predict": ["--query all", "--each-layer", "--query 0", "--top 3"], "tokens": ["-f json", "-f csv"], "convert": ["--dump-dtype bf16"], "bench": [],
}


def npy(shape, values=b"", descr="<f4"):
    head = "{'descr': %r, 'fortran_order': False, 'shape': %r, }" % (descr, tuple(shape))
    head = head.encode() + b" " * (63 - (len(head) + 10) % 64) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head + values


def floats(rng, count, wild):
    pick = (lambda: rng.choice([1e38, -3.4e38, 1e-45, float("nan"), float("inf"), 0.0, rng.gauss(0, 1)])) if wild \
        else (lambda: rng.gauss(0, 1))
    return struct.pack("<%df" % count, *(struct.unpack("<f", struct.pack("<f", pick()))[0] for _ in range(count)))


def layer(rng):
    """Tensors of a small layer: name → (shape, bytes)."""
    heads, width, tokens, wild = rng.choice([1, 2]), rng.choice([1, 2, 3]), rng.choice([1, 3, 5]), rng.random() < .2
    model = heads * width
    shapes = {"X": (tokens, model), **{"W_" + x: (model, model) for x in "qkvo"}}
    if rng.random() < .2:
        shapes["mask"] = (tokens, tokens)
    if rng.random() < .15:
        shapes[rng.choice(list(shapes))] = rng.choice([(65536, 65536, 0), (0, 65536), (65536, 0), (1 << 20, 0, 4),
                                                       (0,), (), (3, 0, 2), (1 << 62, 4, 0), (4096, 0), (0, 0, 0, 0)])
    result = {}
    for name, shape in shapes.items():
        count = 1
        for length in shape:
            count *= length
        result[name] = (shape, floats(rng, count, wild))
    return result, heads


def safetensors(tensors, metadata=None):
    header, at, data = {}, 0, b""
    if metadata:
        header["__metadata__"] = metadata
    for name, (shape, values) in tensors.items():
        header[name] = {"dtype": "F32", "shape": list(shape), "data_offsets": [at, at + len(values)]}
        at, data = at + len(values), data + values
    text = json.dumps(header, ensure_ascii=False).encode("utf-8", "surrogatepass")
    return struct.pack("<Q", len(text)) + text + data


def npz(path, tensors, extra):
    with zipfile.ZipFile(path, "w") as archive:
        for name, (shape, values) in tensors.items():
            archive.writestr(name + ".npy", npy(shape, values))
        for name, values in extra.items():
            archive.writestr(name + ".npy", npy((), struct.pack("<q", values), "<i8"))


def as_json(tensors, heads, rng):
    text = {"num_heads": heads, "tokens": rng.choices(LABELS, k=tensors["X"][0][0] if tensors["X"][0] and
                                                             tensors["X"][0][0] < 9 else 3)}
    for name, (shape, values) in tensors.items():
        numbers = struct.unpack("<%df" % (len(values) // 4), values)
        text[name] = {"shape": list(shape), "dtype": "float32",
                      "data": [x if abs(x) < 1e39 else str(x).replace("inf", "Infinity").replace("nan", "NaN")
                               for x in numbers]}
    return json.dumps(text, ensure_ascii=rng.random() < .5).encode("utf-8", "surrogatepass")


class Place:
    """inputs/ in every format, victim/ that nobody may touch, out/ for results."""

    def __init__(self, rng):
        self.rng, self.root = rng, tempfile.mkdtemp(prefix="mha-hostile-")
        for folder in ("in", "victim", "out", "in/folder", "in/checkpoint", "in/evil", "in/traps"):
            os.mkdir(self.path(folder))
        tensors, heads = layer(rng)
        self.heads = heads
        self.write("in/layer.json", as_json(tensors, heads, rng))
        self.write("in/layer.safetensors", safetensors(tensors, {"num_heads": str(heads)}))
        npz(self.path("in/layer.npz"), tensors, {"num_heads": heads})
        for name, (shape, values) in tensors.items():
            self.write("in/folder/%s.npy" % name, npy(shape, values))
        self.write("in/folder/num_heads.npy", npy((), struct.pack("<q", heads), "<i8"))
        self.write("in/tokens.json", json.dumps({"tokens": rng.choices(LABELS, k=3)}).encode())
        self.write("in/labels.txt", "\n".join(rng.choices(LABELS, k=3)).encode("utf-8", "surrogatepass"))
        self.write("in/w.npy", npy((heads, 3, 3), floats(rng, heads * 9, rng.random() < .3)))
        self.write("in/x.npy", npy((3, 4), floats(rng, 12, rng.random() < .2)))
        self.write("in/raw.bin", floats(rng, 24, False))
        model = {}
        for number in range(rng.choice([1, 2, 3])):
            for letter in "qkvo":
                model["model.layers.%d.self_attn.%s_proj.weight" % (number, letter)] = ((4, 4), floats(rng, 16, False))
        self.write("in/checkpoint/model.safetensors", safetensors(model))
        self.write("in/checkpoint/config.json", json.dumps(
            {"model_type": "llama", "num_attention_heads": rng.choice([2, 2, 2, 1, "2", 1e39, -1, "x", None])}).encode())
        bad = {}
        for name in rng.sample(EVIL, 2):
            for letter in "qkvo":
                bad["%s.self_attn.%s_proj.weight" % (name, letter)] = ((4, 4), floats(rng, 16, False))
        self.write("in/evil.safetensors", safetensors(bad))
        self.write("in/odd.safetensors", safetensors(
            {rng.choice(WORDS).format(rng.choice(["0", "1", *EVIL]), rng.choice(["W_q", "X", "q", "weights", *EVIL])):
             ((2, 2), floats(rng, 4, False)) for _ in range(4)}))
        npz(self.path("in/odd.npz"), {rng.choice(EVIL) or "x": ((2, 2), floats(rng, 4, False)), "X": ((2, 2), b"\0" * 16)},
            {})
        self.whole_model()
        self.write("victim/l.npz", b"precious")
        self.write("victim/l.weights.npy", b"precious")
        self.traps()
        self.links()
        self.first = self.stats("in")
        self.inputs = self.first | self.stats("victim")

    def path(self, name):
        return os.path.join(self.root, name)

    def write(self, name, data):
        with open(self.path(name), "wb") as file:
            file.write(data)

    def whole_model(self):
        """A tiny GPT-2 with its tokenizer, of which now and then something is wrong."""
        rng = self.rng
        os.mkdir(self.path("in/model"))
        d, tokens = 4, 5
        shapes = {"wte.weight": (tokens, d), "wpe.weight": (8, d), "ln_f.weight": (d,), "ln_f.bias": (d,)}
        for name, shape in (("ln_1", (d,)), ("ln_2", (d,)), ("attn.c_attn", (d, 3 * d)), ("attn.c_proj", (d, d)),
                            ("mlp.c_fc", (d, 6)), ("mlp.c_proj", (6, d))):
            shapes["h.0.%s.weight" % name], shapes["h.0.%s.bias" % name] = shape, shape[-1:]
        if rng.random() < .3:
            shapes[rng.choice(list(shapes))] = rng.choice([(1,), (0, 4), (4, 0), (3, 5), (65536, 0), (1 << 40, 0), ()])
        if rng.random() < .2:
            shapes.pop(rng.choice(list(shapes)))
        wild = rng.random() < .2
        model = {}
        for name, shape in shapes.items():
            count = 1
            for length in shape:
                count *= length
            model["transformer." + name] = (shape, floats(rng, count, wild))
        self.write("in/model/model.safetensors", safetensors(model))
        config = {"model_type": "gpt2", "n_head": 2, "n_embd": d, "n_layer": 1, "vocab_size": tokens}
        if rng.random() < .3:
            config[rng.choice(list(config))] = rng.choice([0, -1, 1e39, "x", None, [], {}, True, 1 << 62, "\x1b[2J"])
        self.write("in/model/config.json", json.dumps(config).encode())
        words = rng.choices(LABELS, k=tokens)
        self.write("in/model/tokenizer.json", json.dumps({
            "model": {"type": "WordLevel", "vocab": {word: i for i, word in enumerate(words)}, "unk_token": words[0]},
            "pre_tokenizer": {"type": "WhitespaceSplit"}}, ensure_ascii=rng.random() < .5).encode("utf-8", "surrogatepass"))
        self.write("in/ids.npy", npy((2, 3), struct.pack("<6q", *(rng.choice([0, 1, 2, 4, 4, -1, 5, 1 << 40]) if
                                                               rng.random() < .3 else rng.randrange(5) for _ in range(6))), "<i8"))

    def traps(self):
        """Folders of what is no regular file."""
        rng = self.rng
        for name in ("X.npy", "model.safetensors", "config.json", "model.safetensors.index.json", "W_q.npy"):
            kind = rng.choice(["fifo", "zero", "random", "socket", "folder", "loop", "dangling", "none", "full"])
            path = self.path("in/traps/" + name)
            if kind == "fifo":
                os.mkfifo(path)
            elif kind == "socket":
                here = os.getcwd()
                os.chdir(self.path("in/traps"))  # the path of a socket is short
                with socket.socket(socket.AF_UNIX) as server:
                    server.bind(name)
                os.chdir(here)
            elif kind == "folder":
                os.mkdir(path)
            elif kind != "none":
                os.symlink({"zero": "/dev/zero", "random": "/dev/urandom", "loop": name, "dangling": "nowhere",
                            "full": "/dev/full"}[kind], path)

    def links(self):
        for name in ("layer.json", "layer.npz", "layer.safetensors"):
            os.symlink("../in/" + name, self.path("in/link-" + name))
            os.link(self.path("in/" + name), self.path("in/hard-" + name))
        os.symlink("loop-b", self.path("in/loop-a"))
        os.symlink("loop-a", self.path("in/loop-b"))

    def clean_out(self):
        shutil.rmtree(self.path("out"))
        os.mkdir(self.path("out"))
        for name, target in (("to-input.json", "../in/layer.json"), ("to-npz.npz", "../in/layer.npz"),
                             ("dangling.npz", "nowhere.npz"), ("loop.json", "loop.json"), ("to-folder", "../in/folder"),
                             ("null.npz", "/dev/null"), ("outside.npz", "../in/missing/x.npz"),
                             ("0.npz", "../in/layer.npz"), ("dangling-folder", "gone")):
            os.symlink(target, self.path("out/" + name))
        os.link(self.path("in/layer.json"), self.path("out/hard.json"))
        os.link(self.path("in/w.npy"), self.path("out/hard.npy"))

    def stats(self, folder):
        """What must stay: every name with its kind, size, time and, of small files, bytes."""
        found = {}
        for base, folders, files in os.walk(self.path(folder)):
            for name in folders + files:
                path = os.path.join(base, name)
                status = os.lstat(path)
                data = b""
                if stat.S_ISREG(status.st_mode):
                    with open(path, "rb") as file:
                        data = file.read()
                elif stat.S_ISLNK(status.st_mode):
                    data = os.readlink(path).encode()
                found[os.path.relpath(path, self.root)] = (status.st_mode, status.st_ino, data)
        return found

    def read_by(self, words):
        """The inodes of everything that the arguments but --output name, and of what lies in it."""
        for before, word in zip(words, words[1:]):
            if before in ("-o", "--output"):
                continue
            rest = word.split("=", 1)[-1]
            for end in [len(rest)] + [i for i, c in enumerate(rest) if c == ":"]:
                path = self.path(rest[:end])
                if not rest[:end] or not os.path.exists(path):
                    continue
                yield os.stat(path).st_ino
                if os.path.isdir(path):
                    for name in os.listdir(path):
                        yield os.lstat(os.path.join(path, name)).st_ino

    def remove(self):
        shutil.rmtree(self.root, ignore_errors=True)


def sources(rng, place):
    pool = ["in/layer.json", "in/layer.npz", "in/layer.safetensors", "in/folder", "in/link-layer.json",
            "in/hard-layer.npz", "in/checkpoint", "in/checkpoint X=in/layer.npz --layer 0",
            "in/checkpoint --layer all X=in/folder/X.npy", "in/evil.safetensors",
            "in/evil.safetensors --layer all X=in/folder/X.npy --num-heads 2", "in/odd.safetensors", "in/odd.npz",
            "in/odd.safetensors --layer all", "in/traps", "X=in/traps/X.npy", "in/loop-a", "weights=in/w.npy",
            "weights=in/w.npy in/layer.json", "X=/dev/zero:f32[2,2] --num-heads 1", "/dev/zero", "/dev/urandom",
            "X=/dev/null:f32[0] --num-heads 1", "/dev/null", "X=in/raw.bin:f32[6,4] --num-heads 2",
            "X=in/raw.bin:f32[65536,65536,0] --num-heads 2", "q=in/raw.bin:f32[2,3,4] k=in/raw.bin:f32[2,3,4]",
            "X=in/layer.npz:{layer} --layer 0", "in/evil.safetensors --layer all X=in/{layer}.npy --num-heads 2",
            "in", ".", "in/nothing", "--", "in/folder in/folder", "in/model", "in/model X=in/x.npy --layer 0",
            *MODEL_RUNS]
    usual = ["in/layer.json", "in/layer.npz", "in/layer.safetensors", "in/folder", "in/link-layer.json",
             "in/evil.safetensors --layer all X=in/x.npy --num-heads 2", "in/checkpoint --layer all X=in/x.npy",
             *MODEL_RUNS]
    words = rng.choice(usual if rng.random() < .6 else pool).split(" ")
    if rng.random() < .1:
        words += rng.choice(pool).split(" ")
    return words


def output(rng, command):
    ending = {"map": "svg", "report": "html", "dump": "npz", "convert": "npz"}.get(command, "json")
    return rng.choice(["out/r." + ending, "out/r.json", "out/r.npz", "out/folder", "out/a/b/{layer}." + ending,
                       "out/{layer}." + ending, "out/{layer}/{head}." + ending, "{layer}." + ending,
                       "out/x{layer}{batch}.npy", "in/layer.json", "in/layer.npz", "in/layer.safetensors", "in/folder",
                       "in/folder/", "in/folder/X.npy", "in/{layer}.npz", "in/checkpoint", "in/checkpoint/config.json",
                       "in/checkpoint/model.safetensors", "in/tokens.json", "in/labels.txt", "in/raw.bin", "in/w.npy",
                       "in/link-layer.json", "in/hard-layer.json", "out/to-input.json", "out/to-npz.npz",
                       "out/dangling.npz", "out/loop.json", "out/to-folder", "out/null.npz", "out/outside.npz",
                       "out/hard.json", "out/hard.npy", "out/../in/layer.json", "out/dangling-folder", "/dev/null",
                       "/dev/full", "-", "out", "", "out/" + "x" * 300, "/proc/self/fd/0"])


def fits(place, words):
    """A pipe that is named itself is waited for, as everywhere."""
    return not any(stat.S_ISFIFO(lstat_mode(place.path(word.split("=", 1)[-1].split(":")[0]))) for word in words)


def arguments(rng, place):
    command = rng.choice(list(COMMANDS))
    words = [command, *sources(rng, place)]
    if rng.random() < .5 and COMMANDS[command]:
        words += rng.choice(COMMANDS[command]).split(" ")
    if command == "explain" and rng.random() < .9:
        words += ["--query", "0"]
    if rng.random() < .6 or command in ("dump", "convert", "report"):
        words += ["-o", output(rng, command)]
    if command in ("diff", "diagnose") and rng.random() < .95:
        words += ["--against", "in/layer.npz" if rng.random() < .5 else rng.choice(["in/layer.json", "in/layer.npz", "in/w.npy", "weights=in/w.npy", "in/traps",
                                           "/dev/zero", "in/odd.npz", "output=in/raw.bin:f32[6,4]"])]
    if rng.random() < .15:
        words += ["--tokens", rng.choice(["in/tokens.json", "in/labels.txt", "a b c", "/dev/zero", "in/traps/X.npy",
                                          "\x1b[2J \u202e x"])]
    if rng.random() < .1:
        words += ["--config", rng.choice(["in/checkpoint/config.json", "in/tokens.json", "/dev/urandom", "in/layer.npz"])]
    while rng.random() < .25:
        words += [rng.choice(NUMBERS), rng.choice(EDGES)]
    if rng.random() < .3:
        words += [rng.choice(["--scale", "--softcap"]), rng.choice(["3e38", "1e-45", "1e39", "0.5", "1e-320", "-1"])]
    while rng.random() < .15:
        words += [rng.choice(["--causal", "--residual", "--strict", "--quiet", "--zero-attn", "--color=always",
                              "--rope half", "--alibi true", "--dtype f64", "--columns", "--softmax naive",
                              "--masked-rows nan", "--input-norm rms"])]
    if command == "bench":
        words += ["--repeat", "1"]  # without, it goes on for two seconds
    return [word for text in words for word in (text.split(" ") if text.startswith("--") else [text])]


def lstat_mode(path):
    try:
        return os.lstat(path).st_mode
    except OSError:
        return 0


def limits():
    resource.setrlimit(resource.RLIMIT_CPU, (30, 30))
    resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))


def run(program, words, place):
    """→ code, seconds of the processor, MiB, stdout, stderr."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        child = subprocess.Popen([program, *words], cwd=place.root, stdin=subprocess.DEVNULL, stdout=out, stderr=err,
                                 preexec_fn=limits, env={**os.environ, "LC_ALL": "C.UTF-8"})
        signal.alarm(60)
        try:
            _, status, usage = os.wait4(child.pid, 0)
        except TimeoutError:
            child.kill()
            _, status, usage = os.wait4(child.pid, 0)
            status = -1
        signal.alarm(0)
        child.returncode = 0
        out.seek(0), err.seek(0)
        code = "hangs" if status == -1 else os.waitstatus_to_exitcode(status)
        return code, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024, out.read(), err.read()


def unsafe(text):
    """The first character that a terminal would obey."""
    for c in text:
        code = ord(c)
        if (code < 32 and c not in "\n\t") or 127 <= code < 160 or code in (0x61c, 0x200e, 0x200f, 0x2028, 0x2029) or \
                0x202a <= code <= 0x202e or 0x2066 <= code <= 0x2069 or code & 0xfffe == 0xfffe:
            return repr(c)
    return None


def judge(words, place, result, usual):
    code, seconds, mebibytes, out, err = result
    if code not in (0, 1, 2):
        yield "exit code %s" % code
    try:
        lines = err.decode("utf-8").splitlines()
        text = err.decode()
    except UnicodeDecodeError:
        yield "standard error is no UTF-8"
        lines, text = [], ""
    if "--color=always" not in words:
        if unsafe(text):
            yield "%s on standard error" % unsafe(text)
        binary = any(word in ("npy", "npz", "png", "safetensors") for word in words) or \
            words[0] in ("dump", "convert", "report")
        if not binary:
            try:
                if unsafe(out.decode()):
                    yield "%s on standard output" % unsafe(out.decode())
            except UnicodeDecodeError:
                yield "standard output is no UTF-8"
    messages = [line for line in lines if line.startswith("mha-inspect: ")]
    rest = [line for line in lines if not re.sub("\x1b\\[[0-9;]*m", "", line).startswith(("mha-inspect: ", "note: ", "warning: "))]
    if code == 2 and len(messages) != 1 or code in (0, 1) and messages:
        yield "%d messages: %s" % (len(messages), messages[:2])
    if len(rest) == 2 and code == 2 and all(line.startswith("  ") for line in rest) and rest[1].strip() == "^":
        rest = []  # the line of a mistake in JSON
    if rest:
        yield "something else on standard error: %r" % rest[0][:200]
    if seconds > SECONDS:
        yield "%.1f s" % seconds
    if mebibytes > usual + MEBIBYTES:
        yield "%.0f MiB" % mebibytes
    after = place.stats("in") | place.stats("victim")
    new = [name for name in after if name not in place.inputs]
    # A new file beside the inputs, where --output says so, is the output's place.
    where = [words[i + 1] for i, word in enumerate(words[:-1]) if word in ("-o", "--output")]
    asked = any(place_.startswith("in/") for place_ in where)
    changed = [name for name, what in place.inputs.items() if after.get(name) != what]
    if where:  # what was not read in this run may be replaced, where --output says so
        read = set(place.read_by(words))
        leads = [os.path.realpath(place.path(to)) for to in where]

        def meant(name):
            path = os.path.realpath(place.path(name))
            return any("{" in to or path == to or path.startswith(to + "/") for to in leads)
        changed = [name for name in changed if place.inputs[name][1] in read or name.startswith("victim") or
                   not meant(name)]
    if changed:
        yield "changed: %s" % changed
    into = tuple(os.path.relpath(os.path.realpath(place.path(to)), os.path.realpath(place.root)) for to in where)
    if [name for name in new if not (asked or name.startswith(into)) or name.startswith("victim")]:
        yield "made: %s" % new
    for base, folders, files in os.walk(place.root):
        for name in files:
            if name.startswith(".mha-inspect-"):
                yield "left: %s" % os.path.join(base, name)
    for name in os.listdir(place.root):
        if name not in ("in", "victim", "out") and not any(w.startswith("{layer}") for w in where):
            yield "made: %s" % name
    if os.path.exists(os.path.join(os.path.dirname(place.root), "victim")):
        yield "made a file beside its folder"


def main():
    program = os.path.abspath(sys.argv[1])
    runs = int(sys.argv[2]) if len(sys.argv) > 2 else 1000
    seed = int(sys.argv[3]) if len(sys.argv) > 3 else 1

    def late(*_):
        raise TimeoutError
    signal.signal(signal.SIGALRM, late)
    finds, codes, worst = [], collections.Counter(), [0.0, 0.0]
    place, usual = None, 0
    for number in range(runs):
        rng = random.Random(seed * 1_000_003 + number)
        if number % 25 == 0 or place is None:
            if place:
                place.remove()
            place = Place(random.Random(seed * 1_000_003 + number))
            place.clean_out()
            usual = max(usual, run(program, ["info", "in/w.npy"], place)[2], 24)
        words = arguments(rng, place)
        if any("\0" in word for word in words) or not fits(place, words):
            continue
        result = run(program, words, place)
        if os.environ.get("SHOW"):
            print(words, result[4][:150])
        codes[(words[0], result[0])] += 1
        worst = [max(worst[0], result[1]), max(worst[1], result[2])]
        found = list(judge(words, place, result, usual))
        for find in found:
            finds.append(find)
            print("%d: %s\n    %s\n    %s" % (number, find, " ".join(map(repr, words)), result[4][:300]), flush=True)
        if found or place.stats("in") != place.first:
            place.remove()
            place = None
            continue
        for name in os.listdir(place.root):
            if name not in ("in", "victim", "out"):
                shutil.rmtree(place.path(name)) if os.path.isdir(place.path(name)) else os.remove(place.path(name))
        place.clean_out()
    if place:
        place.remove()
    by_code = collections.Counter()
    for (_, code), count in codes.items():
        by_code[code] += count
    print("%d runs, exit codes %s, at most %.2f s and %.0f MiB (an ordinary run: %.0f), %d finds" %
          (sum(codes.values()), dict(by_code), *worst, usual, len(finds)))
    sys.exit(1 if finds else 0)


if __name__ == "__main__":
    main()
