#!/usr/bin/env python3
"""Wrong ports of further families, one a row: numbers of heads, rotations and windows of other layers, multipliers, norms of q and
k with all others, ALiBi's slopes, and padding that is attended to. From hidden states, and from logits alone.

    /usr/bin/python3 tests/models/other_families.py PROGRAM [--only WORD] [--show]

Models are made in a temporary folder. Exit code 1 where a row is not named, or another cause is told in its place.
"""
import argparse
import copy
import json
import os
import subprocess
import sys
import tempfile

import numpy as np

import clean
import more_text_families
import safetensors
import text_families
from families import frequencies
from forward import Norm, Rope, run
from write import load, write_folder

DATA = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../data")
ROWS = []


def wrong(model, ids, ways="states logits", layers=None):
    """`ids` that tell the mistake; `layers` that have it, where not all have."""
    def register(plant):
        ROWS.append((plant.__name__, model, set(ids.split()), ways.split(), layers, plant))
        return plant
    return register


def each(model, change):
    for block in model.blocks:
        change(block)


def count_heads(model, H, H_kv=None, dims=None):
    def change(block):
        a = block.attention
        width = a.q.weight.shape[1] // H
        a.num_heads, a.num_kv_heads, a.scale = H, H_kv or H, width ** -0.5
        if a.rope:
            a.rope = Rope(frequencies(dims or width, 1e4), adjacent=a.rope.adjacent)
    each(model, change)


# Heads, rotations, windows ----------------------------------------------------------------------------

@wrong("bard-gpt2", "heads.count")
def twelve_heads_for_six(model, tensors):
    count_heads(model, 12)


@wrong("bard-llama", "heads.count")
def three_heads_on_one(model, tensors):
    count_heads(model, 3, 1)


@wrong("bard-bert", "heads.count")
def two_heads_for_six(model, tensors):
    count_heads(model, 2)


@wrong("gptj", "heads.count", "states")
def three_heads_that_turn_as_many_dimensions(model, tensors):
    count_heads(model, 3, dims=4)


def turning(model):
    return next(b.attention.rope for b in model.blocks if b.attention.rope)


def all_layers_turn(model, tensors):
    rope = turning(model)
    each(model, lambda b: setattr(b.attention, "rope", rope))


for family in ("cohere2", "smollm3", "exaone4"):
    wrong(family, "rope.layers", "states", layers=[3])(all_layers_turn)


@wrong("smollm3", "rope.layers rope.missing")
def the_rule_of_turning_layers_inverted(model, tensors):
    rope = turning(model)
    each(model, lambda b: setattr(b.attention, "rope", None if b.attention.rope else rope))


@wrong("cohere2", "window.layers window.added window.length", "states", layers=[3])
def windows_in_every_layer(model, tensors):
    each(model, lambda b: setattr(b.attention, "window", 3))


# Multipliers, norms, slopes ----------------------------------------------------------------------------

@wrong("granite", "block.residual.scaled")
def residual_multiplier_left_out(model, tensors):
    each(model, lambda b: b.__dict__.update(n2=lambda x: x, n4=lambda x: x))


@wrong("granite", "block.residual.scaled")
def residual_multiplier_twice(model, tensors):
    each(model, lambda b: b.__dict__.update(n2=lambda x: 0.22 ** 2 * x, n4=lambda x: 0.22 ** 2 * x))


def add_to_weights(model, more):
    def changed(norm):
        norm = copy.copy(norm)
        norm.weight = np.asarray(norm.weight) + more
        return norm

    def change(b):
        b.n1, b.n2, b.n3, b.n4 = map(changed, (b.n1, b.n2, b.n3, b.n4))
        b.attention.q_norm, b.attention.k_norm = changed(b.attention.q_norm), changed(b.attention.k_norm)
    each(model, change)
    model.final = changed(model.final)


@wrong("gemma3-layer-types", "block_norm.one_plus last_norm.form")
def weights_for_one_plus_weights(model, tensors):
    add_to_weights(model, -1)


@wrong("gemma3-layer-types", "block_norm.one_plus last_norm.form")
def one_added_twice(model, tensors):
    add_to_weights(model, 1)


@wrong("qwen3-untied", "block_norm.eps last_norm.form", "logits states")
def eps_of_all_norms(model, tensors):
    def changed(norm):
        return Norm(norm.kind, 1e-2, norm.weight, norm.bias)

    def change(b):
        b.n1, b.n2 = changed(b.n1), changed(b.n2)
        b.attention.q_norm, b.attention.k_norm = changed(b.attention.q_norm), changed(b.attention.k_norm)
    each(model, change)
    model.final = changed(model.final)


@wrong("cohere-plus", "norm.missing", "logits states")
def no_norms_of_each_head(model, tensors):
    each(model, lambda b: b.attention.__dict__.update(q_norm=None, k_norm=None))


@wrong("mpt", "alibi.missing", "states logits half_logits")
def no_slopes(model, tensors):
    each(model, lambda b: setattr(b.attention, "bias", None))


@wrong("bloom", "alibi.slopes")
def slopes_from_one_on(model, tensors):
    slopes = np.array([1, 2.0 ** -2, 2.0 ** -4, 2.0 ** -6, 1])
    each(model, lambda b: setattr(b.attention, "bias", lambda T: slopes[:, None, None] * np.arange(T)))


# Padding -----------------------------------------------------------------------------------------------

class Counted(Rope):
    def __call__(self, x, positions):
        return Rope.__call__(self, x, self.positions)


def padded(model, tensors, text, through, pads=3):
    """What a batch with padding in front gives where no mask hides it."""
    ids = np.array([0] * pads + text)
    positions = np.arange(len(ids)) if through else np.maximum(np.arange(len(ids)) - pads, 0)
    for b in model.blocks:
        if b.attention.rope:
            b.attention.rope = Counted(b.attention.rope.frequencies, b.attention.rope.adjacent)
            b.attention.rope.positions = positions
    if "transformer.wpe.weight" in tensors:
        words, places = tensors["transformer.wte.weight"], tensors["transformer.wpe.weight"]
        model.embed = lambda i: words[i] + places[positions]
    mask = np.array([0] * pads + [1] * len(text))
    return run(model, ids), {"input_ids": ids[None], "attention_mask": mask[None]}


def padding_seen(through):
    def plant(model, tensors):
        return lambda text: padded(model, tensors, text, through)
    plant.__name__ = f"padding_seen{'_and_counted' if through else ''}"
    return plant


for name in ("bard-gpt2", "bard-llama", "qwen3-untied"):
    for through in (True, False):
        wrong(name, "mask.missing", "states logits last last_of_file")(padding_seen(through))


# Running them ------------------------------------------------------------------------------------------

def saved(stages, model, way):
    layers = range(len(model.blocks))
    if way == "logits":
        return {"logits": stages["logits"][None]}
    if way.startswith("last"):
        return {"logits": stages["logits"][None, -1:]}
    last = stages.get("final", stages[f"layers.{len(model.blocks) - 1}.resid_post"])
    return {"hidden_states": np.stack([stages[f"layers.{n}.resid_pre"] for n in layers] + [last])[:, None]}


def models(folder):
    made = {}
    for make in (text_families.MODELS, more_text_families.MODELS):
        for name, build in make.items():
            config, file, model = build()
            made[name] = os.path.join(folder, name), model, {n: value for n, (_, value) in file.tensors.items()}
            write_folder(made[name][0], config, file.tensors)
    here = os.path.dirname(os.path.abspath(__file__))
    subprocess.run([sys.executable, os.path.join(here, "make.py"), folder, "gemma3-layer-types", "qwen3-untied"],
                   check=True, stdout=subprocess.DEVNULL)
    for at in [os.path.join(folder, n) for n in ("gemma3-layer-types", "qwen3-untied")] + \
            [os.path.join(DATA, n) for n in ("bard-gpt2", "bard-llama", "bard-bert")]:
        tensors = {n: np.asarray(value[1], np.float64) for n, value in safetensors.read_folder(at)[1].items()}
        made[os.path.basename(at)] = at, load(at), tensors
    return made


def judge(program, folder, ids_of_text, path, row, way):
    name, model, ids, _, layers, _ = row
    words = [program, "diagnose", folder, "--ids", ids_of_text, "--threads", "1", "--quiet", "--format", "json", "--against", path]
    done = subprocess.run(words, capture_output=True, text=True)
    if done.returncode == 2:
        return done.stderr.strip(), words
    found = json.loads(done.stdout)
    places = {"": found} if "changes" in found else found
    causes = {at: {c["id"] for c in one["changes"]} | set(one["same_numbers"]) for at, one in places.items()}
    told = {at: one for at, one in causes.items() if one}
    right = told and all(one & ids for one in told.values())
    if right and layers and way == "states":
        right = {int(at.split(".")[1]) for at in told if at.startswith("layers.")} <= set(layers)
    return "" if right else f"{told or 'nothing'}", words


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("--only", action="append")
    parser.add_argument("--show", action="store_true")
    args = parser.parse_args()
    count = named = 0
    with tempfile.TemporaryDirectory() as folder:
        made = models(folder)
        for row in ROWS:
            name, model_name, ids, ways, layers, plant = row
            if args.only and not any(word in f"{model_name}-{name}" for word in args.only):
                continue
            at, model, tensors = made[model_name]
            rng = np.random.default_rng(len(name))
            text = [int(x) for x in rng.integers(5, 60, 11)]
            port = copy.deepcopy(model)
            own = plant(port, tensors)
            stages, beside = own(text) if own else (run(port, np.array(text)), {})
            for way in ways:
                path = os.path.join(folder, "port.npz")
                half = way.startswith("half_")  # every step rounded to float16
                of_way = clean.run(port, text, "f16") if half else stages
                capture = saved(of_way, port, way.removeprefix("half_"))
                np.savez(path, **{n: v.astype(np.float16 if half else np.float32) for n, v in capture.items()}, **beside)
                ids = path if way.endswith("_of_file") else ",".join(map(str, text))
                why, words = judge(os.path.abspath(args.program), at, ids, path, row, way)
                count, named = count + 1, named + (not why)
                if why:
                    print(f"{model_name} {name} {way}: {why}", flush=True)
                if why and args.show:
                    print("    " + " ".join(words), flush=True)
    print(f"{named} of {count} captures are named" if named == count else f"only {named} of {count}")
    return 0 if named == count else 1


if __name__ == "__main__":
    sys.exit(main())
