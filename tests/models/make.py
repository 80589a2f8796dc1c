#!/usr/bin/env python3
"""Writes small random checkpoints, and beside each what a model must compute from it.

    /usr/bin/python3 tests/models/make.py OUTDIR [FAMILY or VARIANT…] [--seed N]

OUTDIR/NAME holds config.json, model.safetensors (or its shards) and expected.npz; standard output
gets the list of variants as JSON. README.md beside this file says what is in expected.npz.
"""
import argparse
import json
import os
import sys
import zlib
from dataclasses import replace

import numpy as np

import safetensors
from families import Weights
from forward import Mixture, choosing_scores, group_scores, route, run, run_layer
from gated_variants import GATED_VARIANTS
from mixture_variants import MIXTURE_VARIANTS
from variants import LEFT_OUT, VARIANTS
from write import TORCH, random_tensor, write_folder


def config_of(variant):
    config = {k: v for k, v in (variant.family.config | variant.config).items() if v is not LEFT_OUT}
    for key in ("torch_dtype", "dtype"):
        if key in config:
            config[key] = TORCH[variant.dtype]
    return config


def checkpoint(variant, config, rng):
    """name in the file -> (dtype, array)"""
    tensors = {}
    for name, tensor in variant.family.tensors(config).items():
        dtype = variant.dtype_of(name) if variant.dtype_of else variant.dtype
        tensors[name] = (dtype, random_tensor(rng, tensor))
    renamed = {variant.rename(n) if variant.rename else n: t for n, t in tensors.items()}
    renamed.pop(None, None)
    return renamed | (variant.extra(config, tensors) if variant.extra else {})


def texts(variant, config, rng):
    """ids, attention_mask or None; padding on the right"""
    text = config.get("text_config", config)
    V = text.get("vocab_size") or text["d_vocab"]
    pad = text.get("pad_token_id") or 0
    length = max(variant.lengths, default=variant.family.length)
    ids = rng.integers(4, V, (len(variant.lengths) or 1, length))
    ids[:, length // 2] = ids[:, 1]  # a token that is there twice
    if not variant.lengths:
        ids[0, list(variant.pads)] = pad
        return ids[0], None
    mask = (np.arange(length) < np.array(variant.lengths)[:, None]).astype(np.int64)
    return np.where(mask, ids, pad), mask


APART = 1e-3  # how far apart, relative to themselves, numbers are that decide which expert is chosen or comes first
DRAWS = 200


def apart(values, count):
    """How near the `count`-th largest and the one after it come, relative to the larger of them."""
    first, second = np.moveaxis(-np.sort(-values, axis=-1), -1, 0)[count - 1:count + 1]
    first, second = (x[np.isfinite(second)] for x in (first, second))  # none beside what is masked
    return ((first - second) / np.maximum(abs(first), abs(second))).min(initial=np.inf)


def settled(f, scores, weights):
    """Whether float32, or another of the ways in which groups are masked, sends every token to the same experts, and whether
    a bias for choosing makes a difference."""
    near = [apart(choosing_scores(f, scores), f.chosen)] + [apart(weights, n) for n in range(1, f.chosen)]
    if f.groups > 1:
        near.append(apart(group_scores(f, scores + f.choosing_bias), f.kept_groups))
    chosen = lambda **ways: route(replace(f, **ways), scores)[0]
    same = np.array_equal(chosen(masked=0.0), chosen(masked=-np.inf))
    biased = np.ndim(f.choosing_bias) == 0 or not np.array_equal(chosen(), chosen(choosing_bias=0.0))
    return min(near) > APART and same and biased


def all_settled(model, stages):
    return all(settled(b.feed_forward, *(stages[f"layers.{n}.{x}"] for x in ("router_scores", "expert_weights")))
               for n, b in enumerate(model.blocks) if isinstance(b.feed_forward, Mixture))


def lone_layers(model, config, rng):
    """The attention of a model's layers that are computed, where others are not: each of one stream."""
    X = rng.standard_normal((7, config.get("text_config", config)["hidden_size"])).astype(np.float32).astype(float)
    stages = {}
    for n, block in enumerate(model.blocks):
        stages |= run_layer(block, n, X, earlier=stages) if block else {}
    return stages


def read(folder):
    config, tensors = safetensors.read_folder(folder)
    return config, Weights(tensors)


def make(folder, variant, seed):
    """Mixtures are drawn again until nothing hangs on a rounding."""
    config, crc = config_of(variant), zlib.crc32(variant.name.encode())
    for draw in range(DRAWS):
        rng = np.random.default_rng([seed, crc] + [draw] * (draw > 0))
        write_folder(folder, config, checkpoint(variant, config, rng), variant.shards)
        ids, mask = texts(variant, config, rng)
        model = variant.family.model(*read(folder))
        if model.layers_alone or None in model.blocks:
            expected, told = lone_layers(model, config, rng), {}
            break
        expected = run(model, ids, mask)
        told = {"ids": ids} | ({} if mask is None else {"attention_mask": mask})
        if all_settled(model, expected):
            break
    else:
        raise AssertionError(f"{variant.name}: tokens stand between two experts in each of {DRAWS} draws")
    np.savez(os.path.join(folder, "expected.npz"), **expected | told)
    return {"name": variant.name, "family": variant.family.name, "precision": variant.dtype, "notes": variant.notes}


def main():
    parser = argparse.ArgumentParser(description="writes small random checkpoints and what is computed from them")
    parser.add_argument("outdir")
    parser.add_argument("families", nargs="*", metavar="FAMILY", help="families or variants; all if none is given")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    variants = VARIANTS + MIXTURE_VARIANTS + GATED_VARIANTS
    known = {x for v in variants for x in (v.name, v.family.name)}
    for name in args.families:
        if name not in known:
            parser.error(f"no family or variant {name}; there are {', '.join(sorted(known))}")
    chosen = [v for v in variants if not args.families or {v.name, v.family.name} & set(args.families)]
    made = [make(os.path.join(args.outdir, v.name), v, args.seed) for v in chosen]
    json.dump(made, sys.stdout, indent=1, ensure_ascii=False)
    print()


if __name__ == "__main__":
    main()
