#!/usr/bin/env python3
"""A model of GPT-2 small's size beside PyTorch and ONNX Runtime, in turns.

    /usr/bin/python3 tests/bench/whole_model.py PROGRAM [--tokens 128,1024] [--rounds 5] [--modules FOLDER] [--in-memory]

Writes a random checkpoint (12 layers, d_model 768, 12 heads, vocabulary 50257, float32) with NumPy
and lets everybody compute the logits behind the last token of the same text: in memory (`bench`
with --ids, beside PyTorch's functions and ONNX Runtime's session, each after a warm-up, and beside
ourselves from the same weights in bfloat16) and as a whole process (`predict`, beside a Python that
loads the same tensors and PyTorch). Then with the weights α of all layers: our process that writes
them to one .npy, beside ONNX Runtime with them as outputs, in memory. Last our peak of anonymous
memory, beside the activations and packed weights of one layer. PyTorch is Debian's python3-torch;
ONNX Runtime is npm's onnxruntime-node in FOLDER/node_modules, left out without --modules. Prints
medians, and our time as a share of theirs round by round. For numbers to keep, nothing else may run
on the machine.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import machine  # noqa: E402
import onnx_model as onnx  # noqa: E402
import turns  # noqa: E402

LAYERS, WIDTH, HEADS, VOCABULARY, POSITIONS = 12, 768, 12, 50257, 1024
CONFIG = {"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "n_layer": LAYERS, "n_head": HEADS,
          "n_embd": WIDTH, "n_ctx": POSITIONS, "n_positions": POSITIONS, "vocab_size": VOCABULARY,
          "activation_function": "gelu_new", "layer_norm_epsilon": 1e-5}


def tensors(rng):
    """GPT-2's names; Conv1D weights are (in, out)."""
    def normal(*shape, scale=0.02):
        return rng.standard_normal(shape, dtype=np.float32) * np.float32(scale)
    yield "transformer.wte.weight", normal(VOCABULARY, WIDTH)
    yield "transformer.wpe.weight", normal(POSITIONS, WIDTH)
    for n in range(LAYERS):
        at = f"transformer.h.{n}."
        for norm in ("ln_1", "ln_2"):
            yield f"{at}{norm}.weight", 1 + normal(WIDTH)
            yield f"{at}{norm}.bias", normal(WIDTH)
        for name, rows, columns in (("attn.c_attn", WIDTH, 3 * WIDTH), ("attn.c_proj", WIDTH, WIDTH),
                                    ("mlp.c_fc", WIDTH, 4 * WIDTH), ("mlp.c_proj", 4 * WIDTH, WIDTH)):
            yield f"{at}{name}.weight", normal(rows, columns)
            yield f"{at}{name}.bias", normal(columns)
    yield "transformer.ln_f.weight", 1 + normal(WIDTH)
    yield "transformer.ln_f.bias", normal(WIDTH)


def write_checkpoint(folder, there, dtype="F32"):
    """In float32, or cut to bfloat16."""
    os.makedirs(folder, exist_ok=True)
    if dtype == "BF16":
        there = {name: (array.view(np.uint32) >> 16).astype(np.uint16) for name, array in there.items()}
    header, at = {}, 0
    for name, array in there.items():
        header[name] = {"dtype": dtype, "shape": array.shape, "data_offsets": [at, at + array.nbytes]}
        at += array.nbytes
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(os.path.join(folder, "model.safetensors"), "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for array in there.values():
            file.write(array.tobytes())
    with open(os.path.join(folder, "config.json"), "w", encoding="utf-8") as file:
        json.dump(CONFIG, file)


def torch_forward(there, ids):
    """Logits behind the last token; `there`: torch tensors by name."""
    import torch
    from torch.nn.functional import layer_norm

    T, d_k = len(ids), WIDTH // HEADS

    def norm(x, name):
        return layer_norm(x, (WIDTH,), there[name + ".weight"], there[name + ".bias"], 1e-5)

    def linear(x, name):
        return torch.addmm(there[name + ".bias"], x, there[name + ".weight"])

    hidden = torch.triu(torch.full((T, T), float("-inf")), 1)
    x = there["transformer.wte.weight"][ids] + there["transformer.wpe.weight"][:T]
    for n in range(LAYERS):
        at = f"transformer.h.{n}."
        q, k, v = (part.view(T, HEADS, d_k).transpose(0, 1)
                   for part in linear(norm(x, at + "ln_1"), at + "attn.c_attn").split(WIDTH, 1))
        weights = torch.softmax(torch.baddbmm(hidden, q, k.transpose(1, 2), alpha=d_k ** -0.5), 2)
        heads = torch.matmul(weights, v).transpose(0, 1).reshape(T, WIDTH)
        x = x + linear(heads, at + "attn.c_proj")
        up = linear(norm(x, at + "ln_2"), at + "mlp.c_fc")
        up = 0.5 * up * (1 + torch.tanh((2 / torch.pi) ** 0.5 * (up + 0.044715 * up * up * up)))
        x = x + linear(up, at + "mlp.c_proj")
    return torch.mv(there["transformer.wte.weight"], norm(x, "transformer.ln_f")[-1])


def torch_serve(folder, ids, threads):
    """A peer's process: answers requests as serve.py says."""
    import torch
    from serve import serve

    torch.set_num_threads(threads)
    with torch.inference_mode():
        there = {name: torch.from_numpy(array) for name, array in tensors(np.random.default_rng(0))}
        serve(lambda: {"logits": torch_forward(there, torch.tensor(ids))},
              lambda path, tensor: np.save(path, tensor.numpy()))


def torch_weights(folder):
    """The tensors of a folder's model.safetensors, in place."""
    import torch

    file = np.memmap(os.path.join(folder, "model.safetensors"), np.uint8, "r")
    length = int.from_bytes(file[:8].tobytes(), "little")
    there = {}
    for name, entry in json.loads(file[8:8 + length].tobytes()).items():
        first, last = entry["data_offsets"]
        there[name] = torch.from_numpy(file[8 + length + first:8 + length + last].view(np.float32)
                                       .reshape(entry["shape"]))
    return there


def torch_once(folder, ids, threads):
    """The whole process: the file's tensors in place, the best five tokens printed."""
    import torch

    torch.set_num_threads(threads)
    there = torch_weights(folder)
    with torch.inference_mode():
        print(torch.softmax(torch_forward(there, torch.tensor(ids)), 0).topk(5))


def onnx_graph(there, T, kept=False):
    """From the embedded text X to the last token's logits; `kept`: with every layer's weights α."""
    constants, nodes = {}, []

    def constant(name, array):
        constants[name] = np.ascontiguousarray(array)
        return name

    def add(kind, inputs, output, *attributes):
        nodes.append(onnx.node(kind, inputs, output, *attributes))
        return output

    def norm(x, name, out):
        return add("LayerNormalization", [x, constant(name + ".weight", there[name + ".weight"]),
                                          constant(name + ".bias", there[name + ".bias"])], out)

    def linear(x, name, out, columns=slice(None)):
        weight, bias = there[name + ".weight"][:, columns], there[name + ".bias"][columns]
        product = add("MatMul", [x, constant(out + "_W", weight)], out + "_product")
        return add("Add", [product, constant(out + "_b", bias)], out)

    d_k = WIDTH // HEADS
    split, joined = constant("split", np.array([T, HEADS, d_k], np.int64)), constant("joined", np.array([T, WIDTH], np.int64))
    scale = constant("scale", np.array(d_k ** -0.5, np.float32))
    mask = constant("mask", np.triu(np.full((T, T), -np.inf, np.float32), 1))
    numbers = {key: constant(key, np.array(value, np.float32))
               for key, value in (("half", 0.5), ("one", 1), ("root", (2 / np.pi) ** 0.5), ("cubic", 0.044715))}
    x = "X"
    for n in range(LAYERS):
        at, own = f"transformer.h.{n}.", f"l{n}_"
        y = norm(x, at + "ln_1", own + "n1")
        for i, (p, axes) in enumerate((("q", (1, 0, 2)), ("k", (1, 2, 0)), ("v", (1, 0, 2)))):
            packed = linear(y, at + "attn.c_attn", own + p + "p", slice(i * WIDTH, (i + 1) * WIDTH))
            add("Transpose", [add("Reshape", [packed, split], own + p + "s")], own + p,
                onnx.integers_attribute("perm", axes))
        scores = add("Mul", [add("MatMul", [own + "q", own + "k"], own + "scores"), scale], own + "scaled")
        weights = add("Softmax", [add("Add", [scores, mask], own + "masked")], own + "weights",
                      onnx.integer_attribute("axis", 2))
        heads = add("Transpose", [add("MatMul", [weights, own + "v"], own + "z")], own + "turned",
                    onnx.integers_attribute("perm", (1, 0, 2)))
        out = linear(add("Reshape", [heads, joined], own + "concat"), at + "attn.c_proj", own + "o")
        x = add("Add", [x, out], own + "mid")
        up = linear(norm(x, at + "ln_2", own + "n2"), at + "mlp.c_fc", own + "up")
        cube = add("Mul", [add("Mul", [up, up], own + "up2"), up], own + "up3")
        inner = add("Add", [up, add("Mul", [cube, numbers["cubic"]], own + "c3")], own + "inner")
        bent = add("Tanh", [add("Mul", [inner, numbers["root"]], own + "rooted")], own + "tanh")
        act = add("Mul", [add("Mul", [up, numbers["half"]], own + "halved"),
                          add("Add", [bent, numbers["one"]], own + "plus")], own + "act")
        x = add("Add", [x, linear(act, at + "mlp.c_proj", own + "down")], own + "post")
    last = add("Gather", [norm(x, "transformer.ln_f", "final"), constant("last", np.array([T - 1], np.int64))], "row",
               onnx.integer_attribute("axis", 0))
    add("MatMul", [last, constant("head", there["transformer.wte.weight"].T)], "logits")
    graph = (b"".join(onnx.field(1, one) for one in nodes) + onnx.field(2, "gpt2")
             + b"".join(onnx.field(5, onnx.tensor(name, array)) for name, array in constants.items())
             + onnx.field(11, onnx.value_info("X", (T, WIDTH)))
             + onnx.field(12, onnx.value_info("logits", (1, VOCABULARY)))
             + b"".join(onnx.field(12, onnx.value_info(f"l{n}_weights", (HEADS, T, T)))
                        for n in range(LAYERS if kept else 0)))
    return onnx.field(1, 8) + onnx.field(8, onnx.field(1, "") + onnx.field(2, 17)) + onnx.field(7, graph)


def print_rows(title, results):
    ours = results["mha-inspect"]
    print(f"\n{title}")
    for name, seconds in results.items():
        share = "" if name == "mha-inspect" else \
            f"  ours is {statistics.median(turns.ratios(seconds, ours)):.2f} times as fast"
        print(f"  {name:14} {1e3 * statistics.median(seconds):8.1f} ms{share}")


def onnx_worker(given, folder, there, T, ids, threads, kept=False):
    model, X = os.path.join(folder, f"{T}.onnx"), os.path.join(folder, f"{T}.npy")
    with open(model, "wb") as file:
        file.write(onnx_graph(there, T, kept))
    np.save(X, there["transformer.wte.weight"][ids] + there["transformer.wpe.weight"][:T])
    here = os.path.dirname(os.path.abspath(__file__))
    return turns.fastest_worker(
        ["node", "--expose-gc", os.path.join(here, "onnx_peer.mjs"), given.modules, model, X, str(threads), "fresh"],
        turns.SETTINGS["ONNX Runtime"])


def process(*command):
    start = time.monotonic()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=turns.environment())
    return time.monotonic() - start


def in_memory(given, folder, there, T, ids, words):
    """Our times and those of all peers."""
    peers = {"PyTorch": turns.fastest_worker(
        [sys.executable, os.path.abspath(__file__), "--serve", folder, words, str(given.threads)],
        turns.SETTINGS["PyTorch"])}
    if given.modules:
        peers["ONNX Runtime"] = onnx_worker(given, folder, there, T, ids, given.threads)

    def ours(checkpoint):
        out = subprocess.run([given.program, "bench", checkpoint, "--ids", words, "--threads", str(given.threads),
                              "--format", "json"], check=True, stdout=subprocess.PIPE)
        return json.loads(out.stdout)["median_s"]

    results = turns.in_turns({"mha-inspect": lambda: ours(folder), "from bf16": lambda: ours(folder + "/bf16"),
                              **{name: peer.turn for name, peer in peers.items()}}, given.rounds)
    check_logits(given, folder, words, peers["PyTorch"])
    for peer in peers.values():
        peer.stop()
    return results


def with_weights(given, folder, there, T, ids, words):
    """Every layer's weights α: written to a file by us, kept in memory by ONNX Runtime."""
    peer = onnx_worker(given, folder, there, T, ids, given.threads, kept=True)
    path = os.path.join(folder, "weights.npy")
    results = turns.in_turns({
        "mha-inspect": lambda: process(given.program, "dump", folder, "--ids", words, "--layer", "all", "-s", "weights",
                                       "-o", path, "--threads", str(given.threads)),
        "ONNX Runtime": peer.turn}, given.rounds)
    peer.ask(save=folder)
    peer.stop()
    weights = np.load(path, mmap_mode="r").reshape(LAYERS, HEADS, T, T)
    error = max(np.abs(weights[n] - np.load(os.path.join(folder, f"l{n}_weights.npy"))).max() for n in range(LAYERS))
    print(f"  largest difference of the weights: {error:.1e}", file=sys.stderr)
    assert error < 1e-5
    return results


def peak_of_anonymous_memory(*command):
    """In bytes, looked at every millisecond."""
    child, peak = subprocess.Popen(command, stdout=subprocess.DEVNULL), 0
    while child.poll() is None:
        try:
            with open(f"/proc/{child.pid}/status", encoding="ascii") as file:
                peak = max([peak, *(int(line.split()[1]) << 10 for line in file if line.startswith("RssAnon"))])
        except OSError:
            break
        time.sleep(0.001)
    assert child.wait() == 0
    return peak


def print_memory(given, folder, T, words):
    # x, its norm, q, k, v, the heads' outputs, output, stream, its norm, inner twice, output, stream.
    activations = 4 * T * WIDTH * (11 + 2 * 4)
    packed = 4 * WIDTH * WIDTH * (4 + 8)
    peak = peak_of_anonymous_memory(given.program, "predict", folder, "--ids", words, "--threads", str(given.threads))
    print(f"\nT {T}: anonymous memory at its peak {peak / 2**20:.1f} MiB; activations of a layer "
          f"{activations / 2**20:.1f}, its packed weights {packed / 2**20:.1f}: {peak / (activations + packed):.0%} of both")


def compare(given, folder, there, T):
    ids = np.random.default_rng(T).integers(0, VOCABULARY, T)
    words = ",".join(map(str, ids))
    print_rows(f"T {T}, in memory: embedding to the last token's logits",
               in_memory(given, folder, there, T, ids, words))
    if given.in_memory:
        return
    print_rows(f"T {T}, the whole process", turns.in_turns({
        "mha-inspect": lambda: process(given.program, "predict", folder, "--ids", words, "--threads",
                                       str(given.threads)),
        "PyTorch": lambda: process(sys.executable, os.path.abspath(__file__), "--once", folder, words,
                                   str(given.threads))}, given.rounds))
    if given.modules:
        print_rows(f"T {T}, the weights of all layers: our process with a file written, theirs in memory",
                   with_weights(given, folder, there, T, ids, words))
    print_memory(given, folder, T, words)


def check_logits(given, folder, words, peer):
    """They compute the same."""
    peer.ask(save=folder)
    theirs = np.load(os.path.join(folder, "logits.npy"))
    out = subprocess.run([given.program, "show", folder, "--ids", words, "-s", "logits", "--query",
                          str(len(words.split(",")) - 1), "-f", "npy"], check=True, stdout=subprocess.PIPE).stdout
    own = os.path.join(folder, "own.npy")
    with open(own, "wb") as file:
        file.write(out)
    error = np.abs(np.load(own).ravel() - theirs).max() / theirs.std()
    print(f"  largest difference of the logits: {error:.1e} of their deviation", file=sys.stderr)
    assert error < 1e-4


def main():
    for name, work in (("--serve", torch_serve), ("--once", torch_once)):
        if sys.argv[1:2] == [name]:
            work(sys.argv[2], [int(i) for i in sys.argv[3].split(",")], int(sys.argv[4]))
            return
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program")
    parser.add_argument("--tokens", default="128,1024")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--modules", default="")
    parser.add_argument("--threads", type=int, default=machine.cores())
    parser.add_argument("--in-memory", action="store_true", help="only that")
    given = parser.parse_args()
    given.program = os.path.abspath(given.program)
    machine.install(given.modules)  # without OpenBLAS PyTorch takes the reference BLAS, and minutes
    with tempfile.TemporaryDirectory(prefix="mha-model-") as folder:
        there = dict(tensors(np.random.default_rng(0)))
        write_checkpoint(folder, there)
        write_checkpoint(folder + "/bf16", there, "BF16")
        for T in map(int, given.tokens.split(",")):
            compare(given, folder, there, T)


if __name__ == "__main__":
    main()
