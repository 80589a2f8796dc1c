"""Random layers, what float64 makes of them, and whether a result agrees."""
import math
import os

import numpy as np

PROJECTIONS = ("q", "k", "v", "o")


class Layer:
    """X is T × d_model, every projection d_model × d_model with a bias, float32. The numbers are such that
    scaled scores spread like a standard normal: weights that neither are all alike nor pick one key."""

    def __init__(self, T, d_model, heads, seed=1):
        self.T, self.d_model, self.heads = T, d_model, heads
        rng = np.random.default_rng(seed)
        self.tensors = {"X": rng.standard_normal((T, d_model), np.float32)}
        for p in PROJECTIONS:
            self.tensors[f"W_{p}"] = rng.standard_normal((d_model, d_model), np.float32)
            self.tensors[f"W_{p}"] *= np.float32(1 / math.sqrt(d_model))
            self.tensors[f"b_{p}"] = rng.standard_normal(d_model, np.float32) / 4

    def save(self, path):
        np.savez(path, num_heads=self.heads, **self.tensors)
        return path

    @property
    def bytes(self):
        return sum(tensor.nbytes for tensor in self.tensors.values())


class Reference:
    """The layer in float64: plain formulas, one head at a time, nothing in common with what is measured."""

    def __init__(self, layer, causal=False):
        self.heads, self.d_k = layer.heads, layer.d_model // layer.heads
        self.causal = causal
        self.layer = layer
        packed = [self.project(layer.tensors["X"].astype(np.float64), p) for p in "qkv"]
        self.q, self.k, self.v = (p.reshape(layer.T, self.heads, self.d_k).transpose(1, 0, 2) for p in packed)

    def project(self, x, p):
        return x @ self.layer.tensors[f"W_{p}"].astype(np.float64) + self.layer.tensors[f"b_{p}"]

    def weights(self, head, rows=slice(None)):
        """T × S of one head, or some of its rows."""
        scaled = self.q[head][rows] @ self.k[head].T / math.sqrt(self.d_k)
        if self.causal:
            queries, keys = np.arange(len(self.k[head]))[rows], np.arange(len(self.k[head]))
            scaled[keys[None, :] > queries[:, None]] = -np.inf
        exp = np.exp(scaled - scaled.max(axis=1, keepdims=True))
        return exp / exp.sum(axis=1, keepdims=True)

    def stages(self, kept):
        """(stage, head or None, values): the weights head by head, so that never more than one is held."""
        outs = []
        for head in range(self.heads):
            weights = self.weights(head)
            if "weights" in kept:
                yield "weights", head, weights
            outs.append(weights @ self.v[head])
        yield "output", None, self.project(np.concatenate(outs, axis=1), "o")

    def output(self, rows):
        """Some rows of it."""
        outs = [self.weights(head, rows) @ self.v[head] for head in range(self.heads)]
        return self.project(np.concatenate(outs, axis=1), "o")


class Mismatch(Exception):
    """A result that is not what float64 says: the benchmark fails."""


# float32 rounds by 6e-8; a sum of a few thousand products by somewhat more, a wrong formula by much more.
TOLERANCE = 2e-5


def check_close(who, stage, found, expected):
    """|found − expected| must stay below TOLERANCE of the largest expected number. Returns the largest error,
    as a share of that number."""
    if found.shape != expected.shape:
        raise Mismatch(f"{who}: {stage} has shape {found.shape}, expected {expected.shape}")
    error = float(np.max(np.abs(found - expected)) / np.max(np.abs(expected)))
    if not error <= TOLERANCE:  # NaN fails, too
        raise Mismatch(f"{who}: {stage} differs from float64 by {error:.1e} of its largest value")
    return error


def check_stages(results, layer, kept, causal=False):
    """Compares everybody's stages, {who: {stage: array}}, with float64. Returns {who: largest error}."""
    errors = dict.fromkeys(results, 0.0)
    for stage, head, expected in Reference(layer, causal).stages(kept):
        for who, stages in results.items():
            found = stages[stage] if head is None else stages[stage][head]
            name = stage if head is None else f"{stage} of head {head}"
            errors[who] = max(errors[who], check_close(who, name, found, expected))
    return errors


def load_stages(folder, kept):
    return {stage: np.load(os.path.join(folder, stage + ".npy"), mmap_mode="r") for stage in kept}
