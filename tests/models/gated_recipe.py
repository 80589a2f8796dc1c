"""One recipe for families whose attention has a gate behind the heads, or something else new.

What a family does otherwise is an entry of `Way`; what the attention of one of its layers has is its `Heads`.
"""
from dataclasses import dataclass, replace
from typing import Callable, Optional

import numpy as np

from families import Family, Tensor, linear, rope_base, rope_scaling, scaled_rope
from forward import ACTIVATIONS, Attention, Block, Head, Linear, Mixture, Model, Norm, Rope, swiglu_clamped
from mixture_families import GATED as PARTS, gated, gated_tensors, noaux



@dataclass
class Heads:
    """The attention of one layer."""
    count: int
    kv: int
    d_k: int
    d_v: Optional[int] = None
    rope: Optional[Rope] = None
    window: Optional[int] = None
    chunk: Optional[int] = None
    scale: Optional[float] = None     # else d_k^-½
    temperature: Optional[Callable] = None
    bias: bool = False                # of q, k, v
    o_bias: bool = False
    norm: str = "head"                # of q and k: "head" has weights, "plain" none; or no norm
    norm_last: bool = False
    gate: str = ""                    # name of the gate's map; "q_proj": its rows stand behind each head's own
    gate_rows: int = 0                # of one head
    gate_act: str = "sigmoid"
    sinks: str = ""
    v_is_k: bool = False              # values are the keys before their norm
    v_norm: bool = False
    v_factor: float = 1.0
    keys_of: Optional[int] = None

    def __post_init__(self):
        self.d_v = self.d_v or self.d_k
        self.scale = self.scale or self.d_k ** -0.5


@dataclass
class Way:
    """What a family does otherwise than Qwen3."""
    layer: Callable                           # config, number -> Heads; None: a layer of another kind
    norms: tuple = ("input_layernorm", "post_attention_layernorm")
    offset: bool = False                      # weights of norms hold gain - 1
    eps: Callable = lambda c: c.get("rms_norm_eps", 1e-6)
    text: Callable = lambda c: c              # where the config of the text model stands
    prefix: str = "model."
    attention: str = "self_attn."
    fused: str = ""                           # name of the one map for q, k and v
    q_names: tuple = ("q_norm", "k_norm")
    o_name: str = "o_proj"
    embed: str = "embed_tokens"
    head: str = "lm_head"
    tied: bool = False
    rows: Callable = lambda c, dtype: 1.0     # multiplies embeddings
    softcap: Callable = lambda c: None        # of logits
    embeds: Callable = lambda c, w: None      # per-layer embeddings
    activation: Callable = lambda c: c.get("hidden_act", "silu")
    others: Callable = lambda c, at, n: {}    # further tensors of a layer
    finish: Callable = lambda c, l, block: block
    more: Callable = lambda c: {}             # tensors beside the layers
    layers_alone: bool = False                # the stream is more than the blocks
    # feed-forwards
    sparse: Callable = lambda c, n: False     # is layer n a mixture?
    dense: str = "mlp."
    width: Callable = lambda c, n: c["intermediate_size"]
    clamp: Callable = lambda c, n: None       # of a mixture's experts; of dense and shared ones
    dense_clamp: Callable = lambda c, n: None
    mixture: str = "mlp."
    count: Callable = lambda c: c["num_experts"]
    chosen: Callable = lambda c: c["num_experts_per_tok"]
    inner: Callable = lambda c: c["moe_intermediate_size"]
    router: str = "gate"
    choosing: tuple = ()                      # names of the bias for choosing; a file has the first
    stored: str = "apart"                     # "inputs": E, in, out of all, gates first; "parts": three, E, out, in
    shared: str = "shared_experts."
    shared_width: Callable = lambda c: 0
    shared_gate: str = ""
    route: Callable = noaux                   # fields of Mixture


# Tensors -------------------------------------------------------------------------------------

def norm_tensor(way, name, width):
    return {f"{name}.weight": Tensor((width,), "offset" if way.offset else "gain")}


def attention_tensors(way, h, d, at):
    q_rows, o_in = h.count * (h.d_k + (h.gate_rows if h.gate == "q_proj" else 0)), h.count * h.d_v
    names = {}
    if way.fused:
        names |= linear(q_rows + h.kv * (h.d_k + h.d_v), d, h.bias, at + way.fused)
    else:
        names |= linear(q_rows, d, h.bias, at + "q_proj")
        if h.keys_of is None:
            names |= linear(h.kv * h.d_k, d, h.bias, at + "k_proj")
            names |= {} if h.v_is_k else linear(h.kv * h.d_v, d, h.bias, at + "v_proj")
    if h.norm == "head":
        for name in way.q_names[:1 if h.keys_of is not None else 2]:
            names |= norm_tensor(way, at + name, h.d_k)
    if h.gate and h.gate != "q_proj":
        names |= linear(h.count * h.gate_rows, d, False, at + h.gate)
    if h.sinks:
        names[at + h.sinks] = Tensor((h.count,), "bias")
    return names | linear(d, o_in, h.o_bias, at + way.o_name)


def mixture_tensors(way, c, at):
    d, I, E = c["hidden_size"], way.inner(c), way.count(c)
    names = linear(E, d, False, at + way.router)
    if way.choosing:
        names[at + way.choosing[0]] = Tensor((E,), "bias")
    if way.stored == "inputs":
        names |= {at + "experts.gate_up_proj": Tensor((E, d, 2 * I), "matrix", d),
                  at + "experts.down_proj": Tensor((E, I, d), "matrix", I)}
    elif way.stored == "parts":
        shapes = zip(PARTS, ((I, d), (I, d), (d, I)))
        names |= {f"{at}{part}.weight": Tensor((E, *shape), "matrix", shape[1]) for part, shape in shapes}
    else:
        for e in range(E):
            names |= gated_tensors(f"{at}experts.{e}.", PARTS, d, I)
    return names


def shared_tensors(way, c, at):
    width, names = way.shared_width(c), {}
    if width:
        names |= gated_tensors(at + way.shared, PARTS, c["hidden_size"], width)
    if way.shared_gate:
        names |= linear(1, c["hidden_size"], False, at + way.shared_gate)
    return names


def tensors(way, c):
    c = way.text(c)
    d, V = c["hidden_size"], c["vocab_size"]
    names = {f"{way.prefix}{way.embed}.weight": Tensor((V, d), "embedding")}
    for n in range(c["num_hidden_layers"]):
        at, h = f"{way.prefix}layers.{n}.", way.layer(c, n)
        for name in way.norms:
            names |= norm_tensor(way, at + name, d)
        names |= attention_tensors(way, h, d, at + way.attention) if h else {}
        if way.sparse(c, n):
            names |= mixture_tensors(way, c, at + way.mixture) | shared_tensors(way, c, at)
        else:
            names |= gated_tensors(at + way.dense, PARTS, d, way.width(c, n))
        names |= way.others(c, at, n)
    names |= norm_tensor(way, way.prefix + "norm", d) | {way.prefix + name: tensor for name, tensor in way.more(c).items()}
    if not c.get("tie_word_embeddings", way.tied):
        names |= linear(V, d, False, way.head)
    return names


# Models --------------------------------------------------------------------------------------

def attention(way, h, l, norm):
    gate = None
    if way.fused:
        q, k, v = l.rows(way.fused, h.count * h.d_k, h.kv * h.d_k, h.kv * h.d_v)
    elif h.gate == "q_proj":
        both = l["q_proj.weight"].reshape(h.count, h.d_k + h.gate_rows, -1)
        biases = (l.get("q_proj.bias") + np.zeros(both.shape[0] * both.shape[1])).reshape(h.count, -1)
        part = lambda where: Linear(both[:, where].reshape(-1, both.shape[-1]).T, biases[:, where].reshape(-1))
        q, gate = part(slice(h.d_k)), part(slice(h.d_k, None))
    else:
        q = l.linear("q_proj")
    if not way.fused:
        k = l.linear("k_proj") if h.keys_of is None else None
        v = k if h.v_is_k or k is None else l.linear("v_proj")
    norms = {"head": [norm(l, name) if f"{name}.weight" in l else None for name in way.q_names],
             "plain": [Norm("rms", norm.eps)] * 2, "": [None, None]}[h.norm]
    if h.gate and not gate:
        gate = l.linear(h.gate)
    return Attention(q, k, v, l.linear(way.o_name), h.count, h.kv, h.scale, window=h.window, chunk=h.chunk, rope=h.rope,
                     q_norm=norms[0], k_norm=norms[1], norm_last=h.norm_last, temperature=h.temperature,
                     v_norm=Norm("rms", norm.eps) if h.v_norm else None, v_factor=h.v_factor, keys_of=h.keys_of,
                     sinks=l[h.sinks] if h.sinks else None, gate=gate, gate_act=h.gate_act)


def clamped(feed_forward, limit):
    if not limit:
        return feed_forward
    of_gate, of_up = swiglu_clamped(limit)
    return replace(feed_forward, activation=of_gate, of_up=of_up)


def experts(way, c, l, act):
    E, I = way.count(c), way.inner(c)
    if "experts.gate_up_proj" in l:  # Transformers 5 holds the others' so, with outputs first
        both, down = (x if way.stored == "inputs" else x.swapaxes(1, 2)
                      for x in (l["experts.gate_up_proj"], l["experts.down_proj"]))
        return [gated((Linear(both[e][:, :I]), Linear(both[e][:, I:]), Linear(down[e])), act) for e in range(E)]
    if way.stored == "parts":
        return [gated([Linear(l[f"{part}.weight"][e].T) for part in PARTS], act) for e in range(E)]
    return [gated([l.linear(f"experts.{e}.{part}") for part in PARTS], act) for e in range(E)]


def feed_forward(way, c, l, n):
    act = ACTIVATIONS[way.activation(c)]
    lone = lambda at: clamped(gated([l.linear(at + part) for part in PARTS], act), way.dense_clamp(c, n))
    if not way.sparse(c, n):
        return lone(way.dense)
    m = l.under(way.mixture)
    shared = way.shared if f"{way.shared}gate_proj.weight" in l else "mlp.shared_experts."
    bias = next((m[name].reshape(-1) for name in way.choosing if name in m), 0.0)
    return Mixture(m.linear(way.router), [clamped(e, way.clamp(c, n)) for e in experts(way, c, m, act)], way.chosen(c),
                   choosing_bias=bias, shared=lone(shared) if way.shared_width(c) else None,
                   shared_gate=l.linear(way.shared_gate) if way.shared_gate else None, **way.route(c))


class NormOf:
    """A norm by its name, with the family's epsilon."""

    def __init__(self, way, c):
        self.eps, self.more = way.eps(c), 1 if way.offset else 0

    def __call__(self, l, name):
        return Norm("rms", self.eps, l[f"{name}.weight"] + self.more)


def model(way, c, w):
    """Blocks are None where a layer is of another kind."""
    c = way.text(c)
    norm = NormOf(way, c)
    b = w.under(way.prefix)
    blocks = []
    for n in range(c["num_hidden_layers"]):
        l, h = b.under(f"layers.{n}."), way.layer(c, n)
        if h is None:
            blocks.append(None)
            continue
        block = Block("pre" if len(way.norms) == 2 else "sandwich", attention(way, h, l.under(way.attention), norm),
                      feed_forward(way, c, l, n), **{f"n{i + 1}": norm(l, name) for i, name in enumerate(way.norms)})
        blocks.append(way.finish(c, l, block))
    table = b[f"{way.embed}.weight"]
    factor = way.rows(c, b.dtype(f"{way.embed}.weight"))
    rows = table if c.get("tie_word_embeddings", way.tied) else w[way.head + ".weight"]
    return Model(lambda ids: factor * table[ids], blocks, norm(b, "norm"), Head(Linear(rows.T), softcap=way.softcap(c)),
                 layer_embeds=way.embeds(c, b), layers_alone=way.layers_alone)


def family(name, config, length, **ways):
    way = Way(**ways)
    return Family(name, config, length, lambda c: tensors(way, c), lambda c, w: model(way, c, w))


def rotation(c, dims, base=None, scaling=None):
    with np.errstate(divide="ignore"):  # llama3's two bounds may be one
        return scaled_rope(c, dims, base or rope_base(c), scaling or rope_scaling(c))
