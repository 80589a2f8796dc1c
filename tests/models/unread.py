#!/usr/bin/env python3
"""Layers whose weights have names that say nothing, in every container: asked about, and right once they are bound.

    /usr/bin/python3 tests/models/unread.py PROGRAM

A file holds X and weights of no known name. Whatever --num-heads says, the program must refuse it in one message that
has all bindings as one line; that line, copied, must give what NumPy computes in float64. Every size differs from every
other. Then what is said to be the identity, and files that must go on being read.
"""
import io
import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
import zipfile

import numpy as np

import gguf
import onnx
import pytorch
import safetensors

T, D, H, D_K, D_V, D_OUT = 5, 6, 2, 4, 7, 9
RNG = np.random.default_rng(49)
X = RNG.standard_normal((T, D)).astype(np.float32)
Q, K = (RNG.standard_normal((D, H * D_K)).astype(np.float32) for _ in range(2))
V, O = RNG.standard_normal((D, H * D_V)).astype(np.float32), RNG.standard_normal((H * D_V, D_OUT)).astype(np.float32)
SQUARE = RNG.standard_normal((D, D)).astype(np.float32)
PROGRAM, ROOT = "", os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
FINDS, RUNS = [], 0


def attention(q, k, v, heads, o=None):
    """Softmax attention of packed queries, keys and values in float64."""
    results = []
    q, k, v = (np.split(a.astype(np.float64), heads, axis=1) for a in (q, k, v))
    for one, key, value in zip(q, k, v):
        scores = one @ key.T / np.sqrt(one.shape[1])
        weights = np.exp(scores - scores.max(1, keepdims=True))
        results.append(weights / weights.sum(1, keepdims=True) @ value)
    side_by_side = np.concatenate(results, axis=1)
    return side_by_side if o is None else side_by_side @ o.astype(np.float64)


class TorchTensor(pytorch.Matrix):
    def __init__(self, key, shape):
        self.storage, self.shape = pytorch.Stored(key, int(np.prod(shape))), shape

    def __reduce__(self):
        strides = [int(np.prod(self.shape[i + 1:])) for i in range(len(self.shape))]
        return pytorch._rebuild_tensor_v2, (self.storage, 0, self.shape, tuple(strides), False, pytorch.OrderedDict())


def write_torch(path, tensors):
    text = io.BytesIO()
    pytorch.Pickler(text, 2).dump({name: TorchTensor(str(i), a.shape) for i, (name, a) in enumerate(tensors.items())})
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("model/data.pkl", text.getvalue())
        for i, array in enumerate(tensors.values()):
            archive.writestr(f"model/data/{i}", np.ascontiguousarray(array).tobytes())
        archive.writestr("model/version", "3\n")


def write_folder(path, tensors):
    os.mkdir(path)
    for name, array in tensors.items():
        np.save(os.path.join(path, name), array)


def write_json(path, tensors):
    with open(path, "w") as file:
        json.dump({name: a.tolist() if isinstance(a, np.ndarray) else a for name, a in tensors.items()}, file)


CONTAINERS = {
    "layer.json": write_json,
    "layer.npz": lambda path, tensors: np.savez(path, **tensors),
    "layer.pt": write_torch,
    "layer.safetensors": lambda path, tensors: safetensors.write(path, {n: ("F32", a) for n, a in tensors.items()}),
    "layer": write_folder,
    "layer.gguf": lambda path, tensors: gguf.write(path, {"general.architecture": "none"}, {
        n: (0, a.shape, np.ascontiguousarray(a).tobytes()) for n, a in tensors.items()}),
}


def start(folder, *words):
    global RUNS
    RUNS += 1
    done = subprocess.run([PROGRAM, *words], cwd=folder, capture_output=True, text=True)
    return done.returncode, done.stdout, [line for line in done.stderr.splitlines() if line.startswith("mha-inspect: ")]


def find(what, *said):
    FINDS.append(f"{what}: " + " ".join(str(one) for one in said))


def output(what, folder, words, expected):
    code, out, errors = start(folder, "show", *words, "-s", "output", "-f", "json")
    if code:
        return find(what, words, code, errors)
    said = np.array(json.loads(out)["output"]["data"])
    if said.shape != expected.shape or not np.allclose(said, expected, rtol=1e-5, atol=1e-5):
        find(what, words, "other numbers", said.shape, expected.shape)


def asked(what, folder, words, expected, bound="WqWkWvWo", heads=("--num-heads", str(H))):
    """Refused with a line of bindings, which gives the expected numbers."""
    for more in ((), heads):
        code, _, errors = start(folder, "show", *words, *more)
        line = re.search(r" could be (?:it|them): write (.*?)(?: \(with @OI|; W_)", errors[0]) if errors else None
        if code != 2 or len(errors) != 1 or not line:
            return find(what, words, more, code, errors)
    copied = shlex.split(line[1])
    names = "".join(word.split("=")[0].replace("_", "") for word in copied)
    if names != bound:
        return find(what, "bound", copied)
    output(what, folder, [*words, *copied, *heads], expected)


def refused(what, folder, words, *expected):
    code, _, errors = start(folder, "show", *words)
    if code != 2 or len(errors) != 1 or not all(one in errors[0] for one in expected):
        find(what, words, code, errors, "expected", expected)


def containers():
    """Rows of each layout in each container, and the queries bound beforehand."""
    expected = attention(X @ Q, X @ K, X @ V, H, O)
    per_head = [np.stack(np.split(W, H, axis=1)) for W in (Q, K, V)] + [np.stack(np.split(O, H))]
    layouts = {
        "rows": [Q, K, V, O], "nn.Linear": [W.T for W in (Q, K, V, O)], "per head": per_head,
        "heads between": [W.transpose(1, 0, 2) for W in per_head[:3]] + [per_head[3].transpose(2, 0, 1)],
    }
    for layout, weights in layouts.items():
        for name, write in CONTAINERS.items():
            if layout != "rows" and name not in ("layer.json", "layer.npz"):
                continue
            with tempfile.TemporaryDirectory() as folder:
                write(os.path.join(folder, name), {"X": X, **dict(zip("abcd", weights))})
                asked(f"{name}, {layout}", folder, [name], expected)
                if layout == "rows":
                    asked(f"{name}, some bound", folder, [name, f"W_q={name}:a", f"W_v={name}:c"], expected, "WkWo")
                    code, out, errors = start(folder, "info", name)
                    if code or "a" not in out or "could be" not in out:
                        find(f"info {name}", code, errors, out)


def names(folder):
    """Names that a shell would take apart, that lead to another, and nothing but X of another file."""
    expected = attention(X @ Q, X @ K, X @ V, H, O)
    for what, row in {"blanks": ["the q", "the k", "the v", "the $o"], "quotes": ["q's", 'k"', "v;", "o&"],
                      "order": ["w4", "w3", "w2", "w1"], "meant": ["W_v1", "W_q1", "W_k1", "W_o1"]}.items():
        weights = dict(zip(row, (V, Q, K, O) if what == "meant" else (Q, K, V, O)))
        write_json(os.path.join(folder, "a layer.json"), {"X": X, **weights})
        asked(what, folder, ["a layer.json"], expected)
    np.save(os.path.join(folder, "x.npy"), X)
    np.savez(os.path.join(folder, "weights.npz"), a=Q, b=K, c=V, d=O)
    asked("X bound", folder, ["X=x.npy", "weights.npz"], expected)
    np.savez(os.path.join(folder, "columns.npz"), X=X.T, a=Q.T, b=K.T, c=V.T, d=O.T)
    asked("columns", folder, ["columns.npz", "--columns"], expected.T)
    layers = {f"layers.{i}.{name}": array for i in (0, 1) for name, array in {"X": X, "a": Q, "b": K, "c": V, "d": O}.items()}
    np.savez(os.path.join(folder, "layers.npz"), **layers)
    asked("a layer of two", folder, ["layers.npz", "--layer", "1"], expected)
    code, _, errors = start(folder, "show", "layers.npz", "--layer", "all")
    if code != 2 or "'W_q=layers.npz:layers.{layer}.a'" not in errors[0]:
        find("two layers", errors)
    graph = onnx.Graph(np.float32)  # without a layer, and with one tensor bound
    graph.inputs.append(onnx.value_info("x", X.shape))
    for name, weight in zip("abcd", (Q, K, V, O)):
        graph.outputs.append(onnx.value_info(graph("MatMul", "x", graph.constant(weight, name)), (T, weight.shape[1])))
    with open(os.path.join(folder, "layer.onnx"), "wb") as file:
        file.write(onnx.model(graph))
    asked("ONNX", folder, ["layer.onnx", "X=x.npy", "W_q=layer.onnx:a"], expected, "WkWvWo")
    write_json(os.path.join(folder, "some.json"), {"X": X, "W_q": Q, "W_k": K, "a": V, "W_o": O})
    asked("one of four", folder, ["some.json"], expected, "Wv")
    write_json(os.path.join(folder, "out.json"), {"X": X, "W_q": Q, "W_k": K, "W_v": V, "a": O, "num_heads": H})
    asked("the output's", folder, ["out.json"], expected, "Wo")
    write_json(os.path.join(folder, "qkv.json"), {"Q": X @ Q, "K": X @ K, "V": X @ V, "a": O, "num_heads": H})
    asked("the output's of packed ones", folder, ["qkv.json"], expected, "Wo")
    write_json(os.path.join(folder, "proj.json"), {"X": X, "q_proj": Q.T, "k_proj": K.T, "v_proj": V.T, "out_proj": O.T})
    refused("known words", folder, ["proj.json"], "W_q=proj.json:q_proj@OI W_k=proj.json:k_proj@OI "
            "W_v=proj.json:v_proj@OI W_o=proj.json:out_proj@OI")
    for name in ("W_0", "W0", "w_0"):
        write_json(os.path.join(folder, "zero.json"), {"X": X, "W_q": Q, "W_k": K, "W_v": V, name: O, "num_heads": H})
        refused(name, folder, ["zero.json"], "did you mean 'W_o'?", f"W_o=zero.json:{name}")
        output(name, folder, ["zero.json", f"W_o=zero.json:{name}"], expected)
    split = {f"W_{name}{h + 1}": part for name, W in (("q", Q), ("k", K), ("v", V))
             for h, part in enumerate(np.split(W, H, axis=1))}
    for more in ({}, {"W_o": O}):
        write_json(os.path.join(folder, "numbered.json"), {"X": X, **split, **more})
        for heads in ([], ["--num-heads", "2"]):
            output("numbered heads", folder, ["numbered.json", *heads], attention(X @ Q, X @ K, X @ V, H, more.get("W_o")))
        gap = {name.replace("W_k2", "W_k3"): a for name, a in split.items()}
        write_json(os.path.join(folder, "gap.json"), {"X": X, **gap, **more})
        refused("numbered heads with a gap", folder, ["gap.json"], "W_k=np.stack([W_k1, W_k3])", "in JSON it is the list of them")
    stacked = {f"W_{name}": np.stack([split[f"W_{name}{h + 1}"] for h in range(H)]) for name in "qkv"}
    write_json(os.path.join(folder, "stacked.json"), {"X": X, **stacked, "W_o": O})
    output("stacked heads", folder, ["stacked.json"], expected)


def bound_alone(folder):
    """Files that no source names, but bindings do: what is beside a projection could be another one."""
    expected = attention(X @ Q, X @ K, X @ V, H, O)
    np.save(os.path.join(folder, "x.npy"), X)
    for name in ("w.npz", "w.pt", "w.safetensors", "w.json"):
        write = CONTAINERS["layer" + os.path.splitext(name)[1]]
        write(os.path.join(folder, name), {"a": Q, "b": K, "c": V, "d": O, "loss": np.ones(3, np.float32)})
        bound = ["X=x.npy", f"W_q={name}:a", f"W_k={name}:b"]
        asked(f"{name}, bound alone", folder, bound, expected, "WvWo")
        output(f"{name}, all bound", folder, [*bound, f"W_v={name}:c", f"W_o={name}:d", "--num-heads", str(H)], expected)
        identity = [*bound, "W_v=identity", "W_o=identity", "--num-heads", str(H)]
        output(f"{name}, the identity", folder, identity, attention(X @ Q, X @ K, X, H))
    np.savez(os.path.join(folder, "known.npz"), W_q=Q, W_o=O, W_v=V, W_k=K, X=X)
    asked("known names beside", folder, ["X=x.npy", "W_q=known.npz", "W_k=known.npz:W_k"], expected, "WvWo")
    np.savez(os.path.join(folder, "layers.npz"), **{"h.0.a": Q, "h.0.b": K, "h.0.c": SQUARE, "h.1.a": SQUARE})
    few = ["W_q=layers.npz:h.0.a", "W_k=layers.npz:h.0.b"]
    output("a file of several layers", folder, ["X=x.npy", *few, "--num-heads", str(H)], attention(X @ Q, X @ K, X, H))
    np.savez(os.path.join(folder, "x.npz"), x=X, a=SQUARE)  # of which X alone is bound
    np.savez(os.path.join(folder, "two.npz"), a=Q, b=K)
    few = ["X=x.npz:x", "W_q=two.npz:a", "W_k=two.npz:b"]
    output("the input's file", folder, [*few, "--num-heads", str(H)], attention(X @ Q, X @ K, X, H))


def identities(folder):
    """What is said to be meant, on the command line and in the file."""
    heads = ["--num-heads", "2"]
    all_four = ["W_q=identity", "W_k=identity", "W_v=identity", "W_o=identity"]
    file = {"X": X, "a": RNG.standard_normal((D, D)), "num_heads": 2}
    write_json(os.path.join(folder, "layer.json"), file)
    output("all are the identity", folder, ["layer.json", *all_four], attention(X, X, X, 2))
    write_json(os.path.join(folder, "said.json"), {**file, **dict(word.split("=") for word in all_four)})
    output("all, in the file", folder, ["said.json"], attention(X, X, X, 2))
    write_json(os.path.join(folder, "out.json"), {"X": X, "W_q": Q, "W_k": K, "W_v": V, "a": O, "b": O, "W_o": O})
    output("a file's is left out", folder, ["out.json", "W_o=identity", *heads], attention(X @ Q, X @ K, X @ V, H))
    refused("twice", folder, ["out.json", "W_o=identity", "W_o=out.json:a", *heads], "W_o is bound twice")
    refused("nothing else", folder, ["W_o=identity"], "alone is not a layer")
    refused("of which layer", ROOT, ["data/bard-gpt2", "--text", "a", "W_o=identity"], "layers.N.W_o=")
    refused("of no layer", ROOT, ["data/bard-gpt2", "--text", "a", "layers.9.W_o=identity"], "there is no layer 9")
    refused("no projection", folder, ["out.json", "mask=identity", *heads], "identity: no such file")
    np.save(os.path.join(folder, "identity"), O)
    os.rename(os.path.join(folder, "identity.npy"), os.path.join(folder, "identity"))
    output("a file of this name", folder, ["out.json", "W_o=identity", *heads], attention(X @ Q, X @ K, X @ V, H, O))
    os.unlink(os.path.join(folder, "identity"))


def still_read(folder):
    """Nothing is asked where nothing could be meant."""
    layer = {"X": X, "W_q": Q, "W_k": K, "W_v": V, "W_o": O, "num_heads": H}
    packed = {"Q": X @ Q, "K": X @ K, "V": X @ V, "num_heads": H}
    whole, alone = attention(X @ Q, X @ K, X @ V, H, O), attention(X @ Q, X @ K, X @ V, H)
    more = {"ffn.up": RNG.standard_normal((D, 24)), "exp_avg": Q, "exp_avg_sq": Q.T, "embedding": RNG.standard_normal((11, D))}
    for what, tensors, expected in [
            ("other modules", {**layer, **more}, whole),
            ("no output projection", {k: v for k, v in layer.items() if k != "W_o"}, alone),
            ("old results", {**layer, "weights": np.zeros((H, T, T)), "output": np.zeros((T, D_OUT))}, whole),
            ("packed", {**packed, "target": np.zeros((T, H * D_V)), "loss": np.zeros(3)}, alone),
            ("a mask that is none here", {"X": SQUARE, "causal_mask": np.tril(SQUARE), "num_heads": 2},
             attention(SQUARE, SQUARE, SQUARE, 2)),
            ("a truth value a place", {**packed, "seen": np.ones((H * D_V, D_OUT)) > 0}, alone),
            ("other inputs", {"X": X, "target": X, "batches": np.zeros((3, T, D)), "num_heads": 2}, attention(X, X, X, 2))]:
        write_json(os.path.join(folder, "layer.json"), tensors)
        output(what, folder, ["layer.json"], expected)
    write_json(os.path.join(folder, "map.json"), {"weights": np.eye(4), "colours": np.zeros((4, 4))})
    write_json(os.path.join(folder, "weights.json"), {"W_q": Q, "W_k": K, "W_v": V, "W_o": O, "num_heads": H, "mlp": more["ffn.up"]})
    for words in (["show", "map.json"], ["info", "weights.json"], ["circuits", "weights.json"]):
        code, _, errors = start(folder, *words)
        if code:
            find("still read", words, code, errors)


def main():
    global PROGRAM
    PROGRAM = os.path.abspath(sys.argv[1])
    containers()
    for part in (names, bound_alone, identities, still_read):
        with tempfile.TemporaryDirectory() as folder:
            part(folder)
    print("\n".join(FINDS + [f"{RUNS} runs, {len(FINDS)} finds"]))
    return 1 if FINDS else 0


if __name__ == "__main__":
    sys.exit(main())
