"""Mistakes that ports make in mixtures of experts, planted in the reference of this folder.

As those of mistakes.py; a layer of the model that is dense stays as it is.
"""
import numpy as np

import forward
from forward import Linear, Mixture, identity
from mistakes import Mistake


def mixtures(edit):
    """Plants an edit in every mixture; False of one means that it has nothing to get wrong."""
    def plant(port):
        own = [b.feed_forward for b in port.blocks if isinstance(b.feed_forward, Mixture)]
        if any(edit(f) is False for f in own) or not own:
            return False
    return plant


def changed(when, **fields):
    """Other values of fields where `when` of the mixture is true."""
    def edit(f):
        if not when(f):
            return False
        for name, value in fields.items():
            setattr(f, name, value)
    return mixtures(edit)


def biased(f):
    return np.ndim(f.choosing_bias) > 0


def weigh_with_bias(port):
    """Takes an expert's weight from the scores that experts are chosen by."""
    if not any(isinstance(b.feed_forward, Mixture) and biased(b.feed_forward) for b in port.blocks):
        return False
    route, feed_right = forward.route, port.feed

    def with_bias(f, scores):
        experts = np.sort(forward.best(forward.choosing_scores(f, scores), f.chosen), -1)
        weights = np.take_along_axis(scores + f.choosing_bias, experts, -1)
        weights = f.factor * (weights / weights.sum(-1, keepdims=True) if f.weight == "renormalised" else weights)
        order = forward.best(weights, f.chosen)
        return np.take_along_axis(experts, order, -1), np.take_along_axis(weights, order, -1)

    def wrong(f, t, x):
        forward.route = with_bias
        try:
            return feed_right(f, t, x)
        finally:
            forward.route = route
    port.feed = wrong


def shared_times_factor(f):
    if f.shared is None or f.factor == 1:
        return False
    out = f.shared.out
    f.shared.out = Linear(out.weight * f.factor, out.bias * f.factor)


def more_experts(by):
    def edit(f):
        if not 1 <= f.chosen + by <= len(f.experts):
            return False
        f.chosen += by
    return mixtures(edit)


def exchanged(f):
    if f.experts[0].up is None:
        return False
    for e in f.experts:
        e.pre, e.up = e.up, e.pre


def joined(f, cut):
    """Gate and other factor cut out of one map otherwise than they were put into it."""
    if f.experts[0].up is None:
        return False
    for e in f.experts:
        width = e.pre.weight.shape[-1]
        weights = cut(e.pre.weight, e.up.weight)
        biases = cut(np.broadcast_to(e.pre.bias, width), np.broadcast_to(e.up.bias, width))
        e.pre, e.up = (Linear(weight, bias) for weight, bias in zip(weights, biases))


def in_turns_where_halves(gate, up):
    both = np.concatenate([gate, up], -1)
    return both[..., ::2], both[..., 1::2]


def halves_where_in_turns(gate, up):
    both = np.stack([gate, up], -1).reshape(*gate.shape[:-1], -1)
    return both[..., :gate.shape[-1]], both[..., gate.shape[-1]:]


def unclamped(f):
    """GPT-OSS's activation and its other factor without their bounds."""
    if f.experts[0].of_up is identity:
        return False
    for e in f.experts:
        e.activation = lambda x: x * forward.sigmoid(1.702 * x)
        e.of_up = lambda x: x + 1


def mixture_mistakes():
    yield Mistake("weights.as_is", "experts.weights", changed(lambda f: f.weight == "renormalised", weight="as_is"))
    yield Mistake("weights.divided", "experts.weights", changed(lambda f: f.weight == "as_is", weight="renormalised"))
    yield Mistake("weights.of_all", "experts.weights", changed(lambda f: f.weight == "softmax_chosen", weight="as_is", score="softmax"))
    yield Mistake("score.sigmoid", "experts.score", changed(lambda f: f.score == "softmax", score="sigmoid"))
    yield Mistake("score.softmax", "experts.score", changed(lambda f: f.score == "sigmoid", score="softmax"))
    yield Mistake("bias.missing", "experts.bias", changed(biased, choosing_bias=0.0))
    yield Mistake("bias.in_weight", "experts.bias", weigh_with_bias)
    yield Mistake("factor.missing", "experts.factor", changed(lambda f: f.factor != 1, factor=1.0))
    yield Mistake("groups.ignored", "experts.groups", changed(lambda f: f.kept_groups < f.groups, kept_groups=1, groups=1))
    yield Mistake("groups.maximum", "experts.groups",
                  changed(lambda f: f.kept_groups < f.groups and f.group_score == "top_two", group_score="maximum"))
    yield Mistake("groups.two_best", "experts.groups",
                  changed(lambda f: f.kept_groups < f.groups and f.group_score == "maximum", group_score="top_two"))
    yield Mistake("groups.masked", "experts.groups",
                  changed(lambda f: f.kept_groups < f.groups and f.masked == 0, masked=-np.inf))
    yield Mistake("groups.zero", "experts.groups", changed(lambda f: f.kept_groups < f.groups and f.masked != 0, masked=0.0))
    yield Mistake("shared.missing", "experts.shared", changed(lambda f: f.shared is not None, shared=None, shared_gate=None))
    yield Mistake("shared.no_gate", "experts.shared", changed(lambda f: f.shared_gate is not None, shared_gate=None))
    yield Mistake("shared.factor", "experts.shared", mixtures(shared_times_factor))
    yield Mistake("number.more", "experts.number", more_experts(1))
    yield Mistake("number.fewer", "experts.number", more_experts(-1))
    yield Mistake("swapped", "experts.swapped", mixtures(exchanged))
    yield Mistake("in_turns", "experts.interleaved", mixtures(lambda f: joined(f, in_turns_where_halves)))
    yield Mistake("halves", "experts.interleaved", mixtures(lambda f: joined(f, halves_where_in_turns)))
    yield Mistake("clamp.missing", "experts.clamp", mixtures(unclamped))
