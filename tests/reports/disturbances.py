"""What no convention explains: wrong numbers, not a wrong computation."""
from dataclasses import dataclass
from typing import Callable

import numpy as np


@dataclass
class Disturbance:
    edit: Callable  # of a right Port, with a generator of random numbers
    hint: str       # a regular expression of what a hint should speak of
    layers: tuple


DISTURBANCES = []
ALL = ("llama", "gpt2", "plain", "vit", "decoder", "qwen", "neox")


def disturbance(hint, layers=ALL):
    def add(edit):
        DISTURBANCES.append(Disturbance(edit, hint, layers))
        return edit
    return add


def replaced(p, name, change):
    right = getattr(p, name)
    setattr(p, name, lambda *args: change(right(*args)))


@disturbance(r"head")
def one_head(p, rng):
    "noise in one head's result"
    h = int(rng.integers(p.H))

    def change(z):
        z = z.copy()
        z[:, h] += rng.standard_normal(z[:, h].shape)
        return z
    replaced(p, "combine", change)


@disturbance(r"head")
def two_heads(p, rng):
    "two heads exchanged"
    a, b = rng.choice(p.H, 2, replace=False)
    order = np.arange(p.H)
    order[[a, b]] = order[[b, a]]
    replaced(p, "combine", lambda z: z[:, order])


@disturbance(r"key|position|token")
def one_key(p, rng):
    "noise in the scores of one key"
    replaced(p, "score", lambda s: with_noise(s, rng, (Ellipsis, int(rng.integers(s.shape[-1])))))


def with_noise(x, rng, place):
    x = x.copy()
    x[place] += rng.standard_normal(x[place].shape).astype(x.dtype)
    return x


@disturbance(r"quantis|quantiz|1 ?%|per cent|percent")
def quantised(p, rng):
    "weights rounded to 8 bits, a scale a column"
    for name in ("W_q", "W_k", "W_v", "W_o"):
        w = getattr(p, name)
        step = np.abs(w).max(0) / 127
        setattr(p, name, np.round(w / step) * step)


@disturbance(r"weight|other|uncorrelat|unrelated")
def other_weights(p, rng):
    "other weights altogether"
    for name in ("W_q", "W_k", "W_v", "W_o"):
        w = getattr(p, name)
        setattr(p, name, (w.std() * rng.standard_normal(w.shape)).astype(w.dtype))


@disturbance(r"weight|other|uncorrelat|unrelated|input")
def other_input(p, rng):
    "another input"
    p.X = rng.standard_normal(p.X.shape).astype(p.X.dtype)


@disturbance(r"position|token|row|query|queries")
def one_token(p, rng):
    "another token at one position of the input"
    p.X = p.X.copy()
    t = int(rng.integers(p.X.shape[-2]))
    p.X[..., t, :] = rng.standard_normal(p.X[..., t, :].shape)


@disturbance(r"past|key|position", ("cached",))
def stale_cache(p, rng):
    "stale keys and values of the past"
    for name in ("k_past", "v_past"):
        past = getattr(p, name)
        setattr(p, name, rng.standard_normal(past.shape).astype(past.dtype))
