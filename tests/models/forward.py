"""The forward pass of a whole model in float64, every step under its stage's name.

Shapes leave out the batch, which may stand before all of them: T tokens, d = d_model, H query
heads, H_kv key and value heads, d_k the width of one head (d_v of its values, where they differ), E
experts, n of them for a token. A step that a model lacks is a neutral element: no bias is 0, no norm
is the identity, no window is all tokens.
"""
import math
from dataclasses import dataclass, field
from typing import Callable, Optional

import numpy as np

_erf = np.vectorize(math.erf, otypes=[float])
_root = math.sqrt(2 / math.pi)


def sigmoid(x):
    return np.exp(-np.logaddexp(0, -x))


def softmax(x):
    """Over the last axis; 0 where a whole row is -inf."""
    largest = x.max(-1, keepdims=True)
    e = np.exp(x - np.where(np.isfinite(largest), largest, 0))
    total = e.sum(-1, keepdims=True)
    return e / np.where(total == 0, 1, total)


def gelu_tanh(x):
    return x / 2 * (1 + np.tanh(_root * (x + 0.044715 * x**3)))


ACTIVATIONS = {
    "relu": lambda x: np.maximum(x, 0),
    "relu2": lambda x: np.maximum(x, 0) ** 2,
    "silu": lambda x: x * sigmoid(x),
    "gelu": lambda x: x / 2 * (1 + _erf(x / math.sqrt(2))),
    "gelu_new": gelu_tanh,
    "gelu_pytorch_tanh": gelu_tanh,
    "gelu_fast": lambda x: x / 2 * (1 + np.tanh(0.7978845608 * x * (1 + 0.044715 * x * x))),
    "quick_gelu": lambda x: x * sigmoid(1.702 * x),
    "solu": lambda x: x * softmax(x),
}


def swiglu_oai(limit):
    """gpt-oss: what becomes of the gate, and of the other factor; neither passes `limit`, the gate downwards does."""
    def of_gate(x):
        x = np.minimum(x, limit)
        return x * sigmoid(1.702 * x)
    return of_gate, lambda x: np.clip(x, -limit, limit) + 1


def swiglu_clamped(limit):
    """Step 3.5: what becomes of the gate, and of the other factor; the gate is cut behind its activation, upwards alone."""
    return lambda x: np.minimum(x * sigmoid(x), limit), lambda x: np.clip(x, -limit, limit)


GATES = {"sigmoid": sigmoid, "softplus": lambda x: np.logaddexp(0, x)}  # of attention's heads

SCORES = {  # of a router's logits
    "softmax": softmax,
    "sigmoid": sigmoid,
    "sqrt_softplus": lambda x: np.sqrt(np.logaddexp(0, x)),
    "logits": lambda x: x,
}


# What a model is made of ---------------------------------------------------------------------

@dataclass
class Linear:
    weight: np.ndarray  # in, out
    bias: object = 0.0  # out

    def __call__(self, x):
        return x @ self.weight + self.bias


@dataclass
class Norm:
    kind: str  # "layer" takes the mean away first, "rms" does not
    eps: float
    weight: object = 1.0
    bias: object = 0.0

    def __call__(self, x):
        if self.kind == "layer":
            x = x - x.mean(-1, keepdims=True)
        return x / np.sqrt((x * x).mean(-1, keepdims=True) + self.eps) * self.weight + self.bias


def of_width(norm):
    """Of all heads' numbers of a token at once; x: H, T, d_k."""
    def apply(x):
        flat = norm(x.swapaxes(-3, -2).reshape(*x.shape[:-3], x.shape[-2], -1))
        return flat.reshape(*flat.shape[:-1], x.shape[-3], -1).swapaxes(-3, -2)
    return apply


def identity(x):
    return x


@dataclass
class Rope:
    frequencies: object      # one for each pair of the first 2 * len(frequencies) dimensions; or of the length
    adjacent: bool = False   # pairs (0, 1), (2, 3), … instead of (0, n/2), (1, n/2 + 1), …
    factor: float = 1.0      # of cosines and sines
    before: int = 0          # dimensions of a head that stay as they are, in front of those that turn

    def __call__(self, x, positions):
        if self.before:
            kept, turned = x[..., :self.before], x[..., self.before:]
            return np.concatenate([kept, self.of_all(turned, positions)], -1)
        return self.of_all(x, positions)

    def of_all(self, x, positions):
        theta = self.frequencies
        if callable(theta):
            theta = theta(positions.max() + 1)
        n = 2 * len(theta)
        first, second = (slice(0, n, 2), slice(1, n, 2)) if self.adjacent else (slice(0, n // 2), slice(n // 2, n))
        angle = positions[..., :, None] * theta
        cos, sin = self.factor * np.cos(angle), self.factor * np.sin(angle)
        a, b = x[..., first], x[..., second]
        y = x.copy()
        y[..., first] = a * cos - b * sin
        y[..., second] = a * sin + b * cos
        return y


@dataclass
class Latent:
    """Latent attention (DeepSeek V2, §2.1): keys and values are made of a few numbers a token, queries maybe, too.
    The attention's k then makes the part of a key without position; the rest is every head's."""
    kv: Linear                     # d -> r_kv + d_pe
    kv_norm: Norm                  # of the first r_kv
    q: Optional[Linear] = None     # d -> r_q
    q_norm: Optional[Norm] = None


@dataclass
class Attention:
    q: Linear
    k: Linear
    v: Linear
    o: Linear
    num_heads: int
    num_kv_heads: int
    scale: float
    causal: bool = True
    window: Optional[int] = None  # keys that a query sees, itself included
    reach: Optional[int] = None   # how far a query sees, to both sides
    bias: Optional[Callable] = None  # tokens -> H, T, T, added to the scaled scores
    softcap: Optional[float] = None
    q_norm: Optional[Norm] = None
    k_norm: Optional[Norm] = None
    norm_last: bool = False       # q_norm and k_norm come after the rotation
    rope: Optional[Rope] = None
    latent: Optional[Latent] = None
    distances: Optional[np.ndarray] = None  # 2M - 1, d_k: a vector for every query - key from -(M - 1) on
    of_keys: bool = False                   # keys are multiplied with it, too
    sinks: Optional[np.ndarray] = None      # H: a logit more in each row's softmax, whose weight is dropped
    chunk: Optional[int] = None             # keys and queries of one stretch of so many tokens see each other
    temperature: Optional[Callable] = None  # positions -> T: of each query's scores, beside the scale
    v_norm: Optional[Norm] = None
    v_factor: float = 1.0                   # of the values, before anything reads them
    keys_of: Optional[int] = None           # the earlier layer whose keys and values are taken, behind norms and rotation
    gate: Optional[Linear] = None           # d -> H or H d_v: what each head's result is multiplied with,
    gate_act: str = "sigmoid"               # behind one of GATES


@dataclass
class FeedForward:
    pre: Linear
    out: Linear
    activation: Callable
    up: Optional[Linear] = None   # the other factor of a gated one
    act_bias: object = 0.0        # TransformerLens adds a gated one's b_in after the product
    act_norm: Callable = identity  # solu_ln
    of_up: Callable = identity    # what becomes of the other factor before the product


@dataclass
class Mixture:
    """Experts, of which each token is sent to a few."""
    router: Linear
    experts: list                   # a FeedForward each
    chosen: int                     # n: experts of a token
    score: str = "softmax"          # of SCORES
    choosing_bias: object = 0.0     # E: added to the scores for choosing, never in a weight
    groups: int = 1                 # of experts that stand side by side
    kept_groups: int = 1            # a token's experts come from so many groups
    group_score: str = "top_two"    # sum of a group's two best; or its "maximum"
    masked: float = -np.inf         # what scores of the other groups become: -inf, or 0 as in early code
    weight: str = "as_is"           # the scores; "renormalised": by their sum; "softmax_chosen": softmax of them
    factor: float = 1.0             # of the weights
    factors: object = None          # E: of each expert's weight (Gemma 4)
    weigh_input: bool = False       # an expert's input has the weight, not its result (Llama 4)
    cap: Optional[float] = None     # of the logits, before they are scores
    shared: Optional[FeedForward] = None     # what every token passes, too
    shared_gate: Optional[Linear] = None     # one number a token, through a sigmoid
    router_norm: Optional[Norm] = None       # Gemma 4: of the stream, in the place of mlp_x, for the router,
    experts_norm: Optional[Norm] = None      # for the experts,
    sum_norm: Optional[Norm] = None          # of what these make together,
    shared_norm: Optional[Norm] = None       # of what the shared ones make


@dataclass
class Side:
    """Per-layer embeddings (Gemma 3n, 4): a few numbers of each token that a layer multiplies and adds."""
    gate: Linear          # d -> d_small
    activation: Callable
    out: Linear           # d_small -> d
    norm: Norm


@dataclass
class Block:
    shape: str
    attention: Attention
    feed_forward: object  # FeedForward, Mixture or None
    n1: Callable = identity
    n2: Callable = identity
    n3: Callable = identity
    n4: Callable = identity
    side: Optional[Side] = None
    factor: object = 1.0  # of the stream that leaves it


@dataclass
class Head:
    decoder: Linear
    transform: Callable = identity
    softcap: Optional[float] = None


@dataclass
class Model:
    embed: Callable  # token numbers -> what enters the first block
    blocks: list
    final: Optional[Norm] = None
    head: Optional[Head] = None
    causal: bool = True
    layer_embeds: Optional[Callable] = None  # token numbers, what enters the first block -> T, layers, d_small
    layers_alone: bool = False  # of a model that is more than its blocks: attention alone is computed


@dataclass
class Trace:
    """Keeps every stage; an edit replaces one as it passes, and everything after follows."""
    stages: dict = field(default_factory=dict)
    edits: dict = field(default_factory=dict)
    prefix: str = ""

    def __call__(self, stage, value):
        name = self.prefix + stage
        self.stages[name] = self.edits[name](value) if name in self.edits else value
        return self.stages[name]


# The computation -----------------------------------------------------------------------------

def split_heads(x, heads):
    """T, H·d_k -> H, T, d_k"""
    return x.reshape(*x.shape[:-1], heads, -1).swapaxes(-3, -2)


def visible(a, tokens, attention_mask):
    """1, T, T: true where the query of the row may see the key of the column."""
    query, key = np.arange(tokens)[:, None], np.arange(tokens)[None, :]
    see = np.ones((tokens, tokens), bool)
    if a.causal:
        see &= key <= query
    if a.window is not None:
        see &= key > query - a.window
    if a.reach is not None:
        see &= abs(query - key) <= a.reach
    if a.chunk is not None:
        see &= key // a.chunk == query // a.chunk
    if attention_mask is not None:
        see = see & (np.asarray(attention_mask)[..., None, :] != 0)
    return see[..., None, :, :]


def compress(a, t, x):
    """What queries are made of; what keys and values are made of; the keys' part with the position: T, d_pe."""
    c_q = t("c_q", a.q_norm(a.q(x))) if a.q else x
    both = a.kv(x)
    r = len(a.kv_norm.weight)
    return c_q, t("c_kv", a.kv_norm(both[..., :r])), t("k_pe", both[..., r:])


def normalise(a, t, q, k):
    return of_both(t, "norm", a.q_norm, a.k_norm, q, k) if a.q_norm else (q, k)


def rotate(a, t, q, k):
    turn = lambda x: a.rope(x, np.arange(x.shape[-2]))
    return of_both(t, "rope", turn, turn, q, k) if a.rope else (q, k)


def of_both(t, stage, of_q, of_k, q, k):
    """No keys where they are an earlier layer's."""
    return t(f"q_{stage}", of_q(q)), None if k is None else t(f"k_{stage}", of_k(k))


def keys_and_values(a, t, c_kv, k_pe):
    k = split_heads(a.k(c_kv), a.num_kv_heads)
    if a.latent:
        k_pe = k_pe[..., None, :, :]
        k = np.concatenate([k, np.broadcast_to(k_pe, (*k.shape[:-1], k_pe.shape[-1]))], -1)
    k = t("k", k)
    v = t("v", a.v_factor * split_heads(a.v(c_kv), a.num_kv_heads))
    return k, t("v_norm", a.v_norm(v)) if a.v_norm else v


def attend(a, t, x, attention_mask):
    x = t("x", x)
    c_q, c_kv, k_pe = compress(a.latent, t, x) if a.latent else (x, x, None)
    q = t("q", split_heads(a.q(c_q), a.num_heads))
    k, v = keys_and_values(a, t, c_kv, k_pe) if a.keys_of is None else (None, None)
    for step in (rotate, normalise) if a.norm_last else (normalise, rotate):
        q, k = step(a, t, q, k)
    if a.keys_of is not None:
        k, v = (t(stage, t.stages[f"layers.{a.keys_of}.{stage}"]) for stage in ("k_rope", "v_norm"))

    group = a.num_heads // a.num_kv_heads  # query head h reads key head h // group
    k, v = np.repeat(k, group, axis=-3), np.repeat(v, group, axis=-3)

    s = t("scores", q @ k.swapaxes(-1, -2))
    warmth = a.temperature(np.arange(x.shape[-2]))[:, None] if a.temperature else 1.0
    s = t("scaled", s * a.scale * warmth)
    if a.softcap:
        s = t("capped", a.softcap * np.tanh(s / a.softcap))
    if a.distances is not None:
        n = x.shape[-2]
        R = a.distances[np.arange(n)[:, None] - np.arange(n) + len(a.distances) // 2]  # T, T, d_k
        bias = np.einsum("...ld,lrd->...lr", q, R)
        if a.of_keys:
            bias = bias + np.einsum("...rd,lrd->...lr", k, R)
        s = t("biased", s + a.scale * bias)
    if a.bias is not None:
        s = t("biased", s + a.bias(x.shape[-2]))
    s = t("masked", np.where(visible(a, x.shape[-2], attention_mask), s, -np.inf))
    if a.sinks is not None:
        sink = np.broadcast_to(np.asarray(a.sinks)[:, None, None], (*s.shape[:-1], 1))
        w = t("weights", softmax(np.concatenate([s, sink], -1))[..., :-1])
    else:
        w = t("weights", softmax(s))
    z = t("head_out", w @ v)
    if a.gate:
        z = t("gated", GATES[a.gate_act](t("gate", split_heads(a.gate(x), a.num_heads))) * z)
    t("head_result", z @ a.o.weight.reshape(a.num_heads, -1, a.o.weight.shape[-1]))
    c = t("concat", z.swapaxes(-3, -2).reshape(*x.shape[:-1], -1))
    return t("output", a.o(c))


def activate(f, pre, up):
    """What a feed-forward's last map multiplies."""
    act = f.activation(pre)
    return f.act_norm(act if up is None else act * f.of_up(up) + f.act_bias)


def feed(f, t, x):
    x = t("mlp_x", x)
    return t("mlp_out", mix(f, t, x) if isinstance(f, Mixture) else pass_through(f, t, x, "mlp"))


def pass_through(f, t, x, name):
    pre = t(name + "_pre", f.pre(x))
    up = t(name + "_up", f.up(x)) if f.up else None
    return f.out(t(name + "_act", activate(f, pre, up)))


def best(values, count):
    """Places of the largest of the last axis, the first of equals."""
    return np.argsort(-values, axis=-1, kind="stable")[..., :count]


def group_scores(f, scores):
    """…, E -> …, groups"""
    of_groups = np.sort(scores.reshape(*scores.shape[:-1], f.groups, -1), -1)
    return of_groups[..., -1] if f.group_score == "maximum" else of_groups[..., -2:].sum(-1)


def choosing_scores(f, scores):
    """What the best are chosen by: with the bias, other groups than the kept ones masked."""
    scores = scores + f.choosing_bias
    if f.groups == 1:
        return scores
    kept = np.zeros((*scores.shape[:-1], f.groups), bool)
    np.put_along_axis(kept, best(group_scores(f, scores), f.kept_groups), True, -1)
    return np.where(np.repeat(kept, scores.shape[-1] // f.groups, -1), scores, f.masked)


def route(f, scores):
    """Each token's experts and their weights, the largest weight first: T, n."""
    experts = np.sort(best(choosing_scores(f, scores), f.chosen), -1)
    weights = np.take_along_axis(scores, experts, -1)
    if f.weight == "renormalised":
        weights = weights / weights.sum(-1, keepdims=True)
    elif f.weight == "softmax_chosen":
        weights = softmax(weights)
    weights = f.factor * weights
    if f.factors is not None:
        weights = weights * f.factors[experts]
    order = best(weights, f.chosen)
    return np.take_along_axis(experts, order, -1), np.take_along_axis(weights, order, -1)


def each(maps, experts, rows):
    """Every row by its own expert's map: T, n, in -> T, n, out."""
    out = np.empty((*experts.shape, maps[0].weight.shape[-1]))
    for place in np.ndindex(experts.shape):
        out[place] = maps[experts[place]](rows[place])
    return out


def mix(f, t, x):
    stream = t.stages.get(t.prefix + "residual")
    logits = t("router", f.router(t("router_x", f.router_norm(stream)) if f.router_norm else x))
    scores = t("router_scores", SCORES[f.score](f.cap * np.tanh(logits / f.cap) if f.cap else logits))
    experts, weights = route(f, scores)
    experts, weights = t("experts", experts), t("expert_weights", weights)[..., None]
    rows = np.repeat((t("experts_x", f.experts_norm(stream)) if f.experts_norm else x)[..., None, :], f.chosen, -2)
    if f.weigh_input:
        rows, weights = weights * rows, 1.0
    pre = t("mlp_pre", each([e.pre for e in f.experts], experts, rows))
    up = t("mlp_up", each([e.up for e in f.experts], experts, rows)) if f.experts[0].up else None
    act = t("mlp_act", activate(f.experts[0], pre, up))
    out = (weights * t("expert_out", each([e.out for e in f.experts], experts, act))).sum(-2)
    if f.sum_norm:
        out = t("experts_norm", f.sum_norm(t("experts_sum", out)))
    if f.shared:
        shared = t("shared_out", pass_through(f.shared, t, x, "shared"))
        shared = t("shared_norm", f.shared_norm(shared)) if f.shared_norm else shared
        if f.shared_gate:
            shared = shared * t("shared_gate", sigmoid(f.shared_gate(x)))
        out = out + shared
    return out


def pre(b, t, x, A, F):
    residual = t("residual", x + A(b.n1(x)))
    return residual + F(b.n2(residual))


def parallel(b, t, x, A, F):
    return x + A(b.n1(x)) + F(b.n2(x))


def sandwich(b, t, x, A, F):
    residual = t("residual", x + t("attn_add", b.n2(A(b.n1(x)))))
    return residual + t("mlp_add", b.n4(F(b.n3(residual))))


def post(b, t, x, A, F):
    r = b.n1(t("residual", x + A(x)))
    return b.n2(r + F(r))


def inside(b, t, x, A, F):
    residual = t("residual", x + t("attn_add", b.n1(A(x))))
    return residual + t("mlp_add", b.n2(F(residual)))


def attention_only(b, t, x, A, F):
    return x + A(b.n1(x))


SHAPES = {"pre": pre, "parallel": parallel, "sandwich": sandwich, "post": post, "inside": inside,
          "attention only": attention_only}


def beside(s, t, x, embeds):
    return t("layer_add", s.norm(s.out(s.activation(s.gate(x)) * t("layer_embed", embeds))))


def run_layer(block, number, x, attention_mask=None, edits=None, earlier=None):
    """The stages of one layer's attention, of a stream that is given; `earlier` are those of layers whose keys it may take."""
    t = Trace(dict(earlier or {}), edits or {}, prefix=f"layers.{number}.")
    attend(block.attention, t, block.n1(t("resid_pre", x)), attention_mask)
    return t.stages


def run(model, ids, attention_mask=None, edits=None, trace=None):
    """Every stage by name. ids: T or B, T; attention_mask alike, 1 = token, 0 = padding.
    edits: {"layers.0.head_out": function of its value}. trace: what keeps the stages."""
    t = trace or Trace(edits=edits or {})
    ids = np.asarray(ids)
    x = t("embed", model.embed(ids))
    embeds = model.layer_embeds(ids, x) if model.layer_embeds else None
    for n, block in enumerate(model.blocks):
        t.prefix = f"layers.{n}."
        x = t("resid_pre", x)
        x = SHAPES[block.shape](
            block, t, x,
            lambda y: attend(block.attention, t, y, attention_mask),
            lambda y: feed(block.feed_forward, t, y))
        if block.side:
            x = x + beside(block.side, t, x, embeds[..., n, :])
        x = t("resid_post", block.factor * x)
    t.prefix = ""
    if model.final:
        x = t("final", model.final(x))
    if model.head:
        logits = model.head.decoder(model.head.transform(x))
        if model.head.softcap:
            logits = model.head.softcap * np.tanh(logits / model.head.softcap)
        t("logits", logits)
        if model.causal and logits.shape[-1] > ids.max():
            each = surprise(logits, ids)
            real = np.ones(each.shape) if attention_mask is None else np.asarray(attention_mask)[..., 1:]
            t("loss", (each * real).sum() / real.sum())
            t("perplexity", np.exp(t.stages["loss"]))
    return t.stages


def surprise(logits, ids):
    """T - 1: -log of the probability that each token but the first had."""
    logits = logits[..., :-1, :] - logits[..., :-1, :].max(-1, keepdims=True)
    log_p = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    return -np.take_along_axis(log_p, ids[..., 1:, None], -1)[..., 0]
