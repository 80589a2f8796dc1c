"""Every kind of input, as tiny files: a lone layer, several, a batch, a whole model with a text, a batch of
texts, token numbers, two models, the parts and the stages of a dump, nothing at all.

A kind is what a command may tell apart; Input.words are its arguments. A kind of its own is one more
line of `write`.
"""
import json
import os
import subprocess
import sys
from dataclasses import dataclass, field

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "models"))

import numpy as np

from make import checkpoint, config_of
from safetensors import write as write_safetensors
from variants import VARIANTS
from write import write_folder

WORDS = "to be or not that is the question whether it".split()
FAMILIES = {"llama": "llama2-gqa", "gpt2": "gpt2", "bert": "bert"}  # with every kind of text
MORE = ["gemma2", "neox-parallel", "qwen3", "tl-ln"]  # with token numbers alone


@dataclass
class Input:
    kind: str
    words: list
    model: str = ""     # the family of a whole model with a text
    layers: int = 1
    edit: list = field(default_factory=list)  # options under which other numbers are computed, and `diagnose` finds why

    @property
    def name(self):
        return self.kind + ("-" + self.model if self.model else "")

    @property
    def is_searched(self):
        """Whether an explanation is sought under every change that `diagnose` knows: of each family once, of
        a batch once. The other kinds' search is through the same changes, and takes most of the time."""
        if self.model in FAMILIES:
            return self.kind == "text" or self.name == "batch-gpt2"
        return self.kind != "checkpoints"


def layer(rng, tokens=5, width=8, heads=2, kv_heads=2, batch=0):
    X = rng.standard_normal((batch, tokens, width) if batch else (tokens, width))
    d = width // heads
    weights = {f"W_{x}": rng.standard_normal((width, n * d)) / width ** .5
               for x, n in (("q", heads), ("k", kv_heads), ("v", kv_heads))}
    return {"X": X, **weights, "W_o": rng.standard_normal((width, width)) / width ** .5}


def write_tokenizer(folder, size):
    """A word a token; [MASK] hides one."""
    words = ["<unk>", "[MASK]", *WORDS][:size]
    words += [f"w{i}" for i in range(len(words), size)]
    with open(os.path.join(folder, "tokenizer.json"), "w") as file:
        json.dump({"added_tokens": [{"id": 1, "content": "[MASK]", "special": True}],
                   "model": {"type": "WordLevel", "vocab": {word: i for i, word in enumerate(words)}, "unk_token": "<unk>"},
                   "pre_tokenizer": {"type": "WhitespaceSplit"}}, file)
    with open(os.path.join(folder, "tokenizer_config.json"), "w") as file:
        json.dump({"mask_token": "[MASK]"}, file)


def write_model(folder, name):
    """A random model of a family with a tokenizer; its number of layers."""
    variant = next(v for v in VARIANTS if v.name == name)
    config = config_of(variant)
    write_folder(folder, config, checkpoint(variant, config, np.random.default_rng(3)), variant.shards)
    text = config.get("text_config", config)
    write_tokenizer(folder, text.get("vocab_size") or text["d_vocab"])
    return next(text[key] for key in ("num_hidden_layers", "n_layer", "n_layers") if key in text)


def write(folder, program):
    """Writes everything into the folder, and returns the inputs; what other programs would have
    computed is dumped by the program itself, where `edit` says under other conventions."""
    rng = np.random.default_rng(1)
    path = lambda *names: os.path.join(folder, *names)
    found = []

    def add(kind, words, **more):
        found.append(Input(kind, words, **more))

    np.savez(path("layer.npz"), num_heads=2, causal=True, **layer(rng))
    add("lone", ["layer.npz"], edit=["--scale", "0.9"])
    np.savez(path("batch.npz"), num_heads=2, num_kv_heads=1, **layer(rng, kv_heads=1, batch=2),
             X_kv=rng.standard_normal((2, 7, 8)), mask=rng.random((5, 7)) < .8)
    add("batched", ["batch.npz"], edit=["--scale", "0.9"])
    stack = {f"layers.{n}.{name}": value for n in range(3) for name, value in layer(rng).items()}
    write_safetensors(path("layers.safetensors"), {name: ("F32", value) for name, value in stack.items()})
    add("layers", ["layers.safetensors", "--layer", "all", "--num-heads", "2"], layers=3, edit=["--scale", "0.9"])

    texts = {"text": ["--text", "to be or not to [MASK]"],
             "chosen": ["--text", "to be or not to [MASK]", "--layer", "1"],
             "batch": ["--text", "to be or not to [MASK]", "--text", "that [MASK]"],
             "lines": ["--text-file", "lines.txt", "--each-line"],
             "numbers": ["--ids", "3,4,5,1,3"],
             "padded": ["--ids", "ids.npz"]}
    with open(path("lines.txt"), "w") as file:
        file.write("to be [MASK]\nor not to be that [MASK]\n")
    np.savez(path("ids.npz"), ids=np.array([[3, 4, 1, 5], [4, 1, 0, 0]]), attention_mask=np.array([[1, 1, 1, 1], [1, 1, 0, 0]]))
    edits = {"llama": ["--rope", "interleaved"], "gpt2": ["--scale", "0.5"], "bert": ["--causal"]}
    for model, variant in FAMILIES.items():
        count = write_model(path(model), variant)
        for kind, words in texts.items():
            if model != "llama" and kind in ("lines", "numbers", "padded"):
                continue  # read as texts and batches are
            add(kind, [model, *words], model=model, layers=1 if kind == "chosen" else count, edit=edits[model])
    for variant in MORE:
        count = write_model(path(variant), variant)
        # Of Gemma 2 every other layer has a window: their settings differ.
        kind = "varied" if variant == "gemma2" else "numbers"
        add(kind, [variant, "--ids", "3,4,5,1,3"], model=variant, layers=count, edit=["--scale", "0.9"])

    width = json.load(open(path("llama", "config.json")))["hidden_size"]
    np.save(path("hidden.npy"), rng.standard_normal((5, width)))
    add("checkpoint", ["llama", "X=hidden.npy", "--layer", "1"], edit=["--rope", "interleaved"])
    add("checkpoints", ["llama", "X=hidden.npy", "--layer", "all", "--same-x"], layers=count, edit=["--scale", "0.9"])
    add("two-models", ["llama", "gpt2", "--ids", "3,4,5"])
    add("nothing", [])

    def dump(to, *words):
        subprocess.run([program, "dump", *words, "-q", "-o", to], cwd=folder, check=True)
    dump("stages.npz", "layer.npz")
    dump("part1.npz", "layer.npz", "--part", "1/2")
    dump("part2.npz", "layer.npz", "--part", "2/2")
    add("stages", ["stages.npz"])
    add("part", ["part1.npz"])
    add("parts", ["part1.npz", "part2.npz"])
    return found
