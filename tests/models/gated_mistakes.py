"""Mistakes that ports make in gated attention and in what else is new there, planted in the reference of this folder.

As those of mistakes.py; a layer that has nothing to get wrong stays as it is. An id may end in an asterisk.
"""
from dataclasses import replace

import numpy as np

from families import frequencies
from forward import ACTIVATIONS, GATES, Linear, Mixture, Rope, Trace, identity, sigmoid, split_heads
from mistakes import Mistake, Port, other
from mixture_mistakes import mixtures, shared_times_factor

GATES |= {"silu": ACTIVATIONS["silu"], "none": identity, "tanh": np.tanh}  # that no model has
ONE_PLUS = ("step3p5", "qwen3_next", "qwen3_5", "qwen3_5_text")  # model types whose norms have gain - 1 in the file


class LonePort(Port):
    """The attention of one layer, the last that is computed, where others stand beside it that are not."""

    def __init__(self, model, config):
        super().__init__(model, config)
        self.number = max(n for n, block in enumerate(model.blocks) if block)
        self.model.blocks = [self.blocks[self.number]]

    def run(self, X):
        t, block = Trace(), self.blocks[0]
        self.attend(block.attention, t, block.n1(t("resid_pre", X)), None)
        return {name: value for name, value in t.stages.items() if name not in ("resid_pre", "head_result")}


# What is edited ------------------------------------------------------------------------------

def attentions(port):
    return [b.attention for b in port.blocks]


def all_mixtures(port):
    return [b.feed_forward for b in port.blocks if isinstance(b.feed_forward, Mixture)]


def all_experts(port):
    return [e for f in all_mixtures(port) for e in f.experts]


def of_every_token(port):
    """Dense feed-forwards and shared experts; a lone layer's is not run."""
    return [f.shared if isinstance(f, Mixture) else f for b in port.blocks for f in [b.feed_forward]
            if not isinstance(f, Mixture) or f.shared]


def changed(parts, when, fields, only=lambda port: True):
    """Other values of fields, given by a function of the part, of each part for which `when` is true."""
    def plant(port):
        own = [part for part in parts(port) if when(part)] if only(port) else []
        for part, values in [(part, fields(part)) for part in own]:
            for name, value in values.items():
                setattr(part, name, value)
        if not own:
            return False
    return plant


def attention(when, fields, only=lambda port: True):
    return changed(attentions, when, fields, only)


def of_type(*names):
    return lambda port: port.config.get("model_type") in names


# Gates ---------------------------------------------------------------------------------------

def gated(a):
    return a.gate is not None


def gate_of_stream(port):
    """The gate is made of what the input norm gets."""
    if not any(gated(a) for a in attentions(port)):
        return False
    right = port.attend

    def wrong(a, t, x, mask):
        of_stream = lambda _: a.gate(t.stages[t.prefix + "resid_pre"])
        return right(replace(a, gate=of_stream) if gated(a) else a, t, x, mask)
    port.attend = wrong


def gate_of_output(port):
    """The gate multiplies what W_o makes, where that is as wide as the heads are together."""
    if not all(gated(a) and a.gate.weight.shape[-1] == a.o.weight.shape[-1] for a in attentions(port)):
        return False
    right = port.attend

    def wrong(a, t, x, mask):
        t("gate", split_heads(a.gate(x), a.num_heads))
        t.edits[t.prefix + "output"] = lambda output: GATES[a.gate_act](a.gate(x)) * output
        return right(replace(a, gate=None), t, x, mask)
    port.attend = wrong


def in_halves(a):
    """All heads' rows of q, then all of the gate, where each head has its own one after the other."""
    inputs = a.q.weight.shape[0]
    by_head = lambda part: np.broadcast_to(part.bias, part.weight.shape[-1]).reshape(a.num_heads, -1)
    rows = np.concatenate([part.weight.T.reshape(a.num_heads, -1, inputs) for part in (a.q, a.gate)], 1)
    biases = np.concatenate([by_head(a.q), by_head(a.gate)], 1)
    halves = zip(np.split(rows.reshape(-1, inputs), 2), np.split(biases.reshape(-1), 2))
    q, gate = (Linear(weight.T, bias) for weight, bias in halves)
    return {"q": q, "gate": gate}


def gate_mistakes():
    yield Mistake("gate.missing", "gate.missing", attention(gated, lambda a: {"gate": None}))
    yield Mistake("gate.place", "gate.place", gate_of_output)
    for name in GATES:
        yield Mistake(f"gate.activation.{name}", "gate.activation",
                      attention(lambda a, name=name: gated(a) and a.gate_act != name, lambda a, name=name: {"gate_act": name}))
    yield Mistake("gate.input", "gate.input", gate_of_stream)
    in_q_proj = of_type("qwen3_next", "qwen3_5", "qwen3_5_text")
    yield Mistake("gate.rows.halves", "gate.rows", attention(gated, in_halves, in_q_proj))
    yield Mistake("gate.rows.first", "gate.rows", attention(gated, lambda a: {"q": a.gate, "gate": a.q}, in_q_proj))


# Queries, keys, values -----------------------------------------------------------------------

def keys_are_taken(port):
    """Layers that take another's keys and values look for the last steps' names: steps left out must do nothing instead."""
    return any(a.keys_of is not None for a in attentions(port))


def no_v_norm(port):
    return attention(lambda a: a.v_norm, lambda a: {"v_norm": identity if keys_are_taken(port) else None})(port)


def no_rotation(port):
    still = Rope(np.zeros(1)) if keys_are_taken(port) else None
    return attention(lambda a: a.rope, lambda a: {"rope": still})(port)


def values_are(steps):
    """Values are the keys after these steps, where the model has them before."""
    def fields(a):
        def v(x):
            k = split_heads(a.k(x), a.num_kv_heads)
            for step in steps(a):
                k = step(k)
            return k.swapaxes(-3, -2).reshape(*x.shape[:-1], -1)
        return {"v": v}
    return attention(lambda a: a.k is not None and a.v is a.k, fields)


def turned(a):
    return lambda k: a.rope(k, np.arange(k.shape[-2]))


def width(a):
    return a.q.weight.shape[-1] // a.num_heads


def one_plus(norms, by=-1):
    """Every one of the norms with w for 1 + w; or the reverse."""
    def plant(port):
        own = [slot for slot in norms(port) if hasattr(getattr(*slot), "weight") and not isinstance(getattr(*slot).weight, float)]
        for part, name in own:
            setattr(part, name, other(getattr(part, name), weight=getattr(part, name).weight + by))
        if not own or not of_type(*(ONE_PLUS if by < 0 else ("gemma4", "gemma4_text")))(port):
            return False
    return plant


def slots(*names):
    return lambda port: [(b, name) for b in port.blocks for name in names]


def of_heads(port):
    return [(a, name) for a in attentions(port) for name in ("q_norm", "k_norm")]


def of_all(port):
    inner = [(b.feed_forward, name) for b in port.blocks for name in ("experts_norm", "sum_norm", "shared_norm")
             if getattr(b.feed_forward, name, None)]
    return slots("n1", "n2", "n3", "n4")(port) + inner + of_heads(port) + [(port.model, "final")]


def head_mistakes():
    yield Mistake("v_norm.missing", "v_norm.missing", no_v_norm)
    yield Mistake("v_norm.keys.normed", "v_norm.keys", values_are(lambda a: [a.k_norm]))
    yield Mistake("v_norm.keys.rotated", "buffer.v", values_are(lambda a: [a.k_norm, turned(a)]))
    yield Mistake("v_factor.missing", "v.factor",
                  attention(lambda a: a.v_factor != 1, lambda a: {"v_factor": 1.0}))
    yield Mistake("scale.root", "scale.*", attention(lambda a: a.scale == 1, lambda a: {"scale": width(a) ** -0.5}))
    yield Mistake("qk_norm.missing", "norm.missing", attention(lambda a: a.q_norm, lambda a: {"q_norm": None, "k_norm": None}))
    yield Mistake("one_plus.first", "input_norm.one_plus", one_plus(slots("n1")))
    yield Mistake("one_plus.second", "block_norm.one_plus", one_plus(slots("n2")))
    yield Mistake("one_plus.heads", "norm.one_plus", one_plus(of_heads))
    yield Mistake("one_plus.all", "input_norm.one_plus block_norm.one_plus norm.one_plus", one_plus(of_all))
    yield Mistake("one_plus.added", "input_norm.one_plus block_norm.one_plus", one_plus(of_all, by=1))


# Positions and what is seen ------------------------------------------------------------------

def rotation_for_all(port):
    """Layers without a rotation get the one that others have."""
    known = [a.rope for a in attentions(port) if a.rope]
    return attention(lambda a: not a.rope, lambda a: {"rope": known[0]})(port) if known else False


def proportional(a):
    return a.rope and 0 in a.rope.frequencies and np.count_nonzero(a.rope.frequencies) > 1


def turning(a):
    """Frequencies other than 0, and the base that they are made of."""
    theta = a.rope.frequencies[a.rope.frequencies > 0]
    return theta, (theta[0] / theta[1]) ** len(a.rope.frequencies)


def first_dimensions(a):
    theta, base = turning(a)
    return {"rope": Rope(frequencies(2 * len(theta), base))}


def all_pairs(a):
    return {"rope": Rope(frequencies(width(a), turning(a)[1]))}


def position_mistakes():
    warm = lambda a: a.temperature
    yield Mistake("temperature.missing", "temperature.missing", attention(warm, lambda a: {"temperature": None}))
    yield Mistake("temperature.position", "temperature.*",
                  attention(warm, lambda a: {"temperature": lambda at, right=a.temperature: right(at - 1)}))
    yield Mistake("chunk.missing", "window.missing", attention(lambda a: a.chunk, lambda a: {"chunk": None}))
    yield Mistake("chunk.window", "window.chunks", attention(lambda a: a.chunk, lambda a: {"chunk": None, "window": a.chunk}))
    yield Mistake("window.missing", "window.missing", attention(lambda a: a.window, lambda a: {"window": None}))
    yield Mistake("sinks.missing", "sinks.missing", attention(lambda a: a.sinks is not None, lambda a: {"sinks": None}))
    yield Mistake("rope.added", "rope.*", rotation_for_all)
    yield Mistake("rope.missing", "rope.missing", no_rotation)
    yield Mistake("rope.first_dimensions", "rope.*", attention(proportional, first_dimensions))
    yield Mistake("rope.first_pairs", "rope.*", attention(proportional, lambda a: {"rope": Rope(turning(a)[0])}))
    yield Mistake("rope.all_pairs", "rope.*", attention(proportional, all_pairs))


# Feed-forwards and the stream ----------------------------------------------------------------

def clamped(f):
    return f is not None and f.of_up is not identity


def bound(f):
    return float(f.of_up(np.inf))


def unclamped(f):
    return {"activation": ACTIVATIONS["silu"], "of_up": identity}


def clamped_first(f):
    """The gate is cut before its activation instead of after it."""
    return {"activation": lambda x, most=bound(f): np.minimum(x, most) * sigmoid(np.minimum(x, most))}


def other_mistakes():
    yield Mistake("weigh_output", "experts.weigh_input",
                  changed(all_mixtures, lambda f: f.weigh_input, lambda f: {"weigh_input": False}))
    yield Mistake("shared.factor", "experts.shared", mixtures(shared_times_factor))
    for name, id, parts in (("experts", "experts.clamp", all_experts), ("mlp", "mlp.clamp", of_every_token)):
        yield Mistake(f"{name}.clamp.missing", id, changed(parts, clamped, unclamped))
        yield Mistake(f"{name}.clamp.first", id, changed(parts, clamped, clamped_first))
    yield Mistake("stream_scale.missing", "block.stream_scale",
                  changed(lambda port: port.blocks, lambda b: np.ndim(b.factor) > 0, lambda b: {"factor": 1.0}))


def gated_mistakes():
    yield from gate_mistakes()
    yield from head_mistakes()
    yield from position_mistakes()
    yield from other_mistakes()
