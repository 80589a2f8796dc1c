#!/usr/bin/env python3
"""Wrong ports, fourth part: ranks' parts of weights, multiplied sums, places and forms of norms, memory written over, the model's
end, windows and rotations of some layers.

    /usr/bin/python3 tests/models/fourth_threads.py PROGRAM MODELS [--only WORD] [--show] [--keep FOLDER] [-j N]
"""
import copy
import sys

import numpy as np

from forward import Norm
from thread_ports import each, frequencies, main, thread
from unseen import altered


# Ranks -----------------------------------------------------------------------------------------------

def columns(part, order):
    """The outputs of a product in another order, or some of them again."""
    part.weight = part.weight[:, order]
    if not isinstance(part.bias, float):
        part.bias = part.bias[order]


def fused_from(a, order):
    """q, k and v whose column i, side by side, is column order[i] of [q k v]."""
    parts = (a.q, a.k, a.v)
    weight = np.concatenate([p.weight for p in parts], 1)[:, order]
    bias = np.concatenate([np.broadcast_to(p.bias, p.weight.shape[1:]) for p in parts])[order]
    at = 0
    for p in parts:
        n = p.weight.shape[1]
        p.weight = weight[:, at:at + n]
        if not isinstance(p.bias, float):
            p.bias = bias[at:at + n]
        at += n


def widths(a):
    return [p.weight.shape[1] for p in (a.q, a.k, a.v)]


def joined_as_they_are(a, ranks):
    starts = np.cumsum([0] + widths(a))
    return np.concatenate([s + r * (n // ranks) + np.arange(n // ranks) for r in range(ranks) for s, n in zip(starts, widths(a))])


def cut_in_equal_parts(a, ranks):
    N, own = sum(widths(a)), [n // ranks for n in widths(a)]
    starts = np.cumsum([0] + own)
    return np.concatenate([r * (N // ranks) + starts[i] + np.arange(own[i]) for i in range(3) for r in range(ranks)])


@thread("ndif-team/nnsight#719", "weight.shards", "phi3-su", "everything states logits modules")
def fused_ranks_joined(port):
    """[q0 k0 v0 | q1 k1 v1] read as [q | k | v]."""
    for _, b in each(port):
        fused_from(b.attention, joined_as_they_are(b.attention, 2))


@thread("ndif-team/nnsight#719", "weight.shards weight.order.per_head", "neox-parallel", "everything states", layers=[2])
def fused_ranks_joined_in_one_layer(port):
    for _, b in each(port, [2]):
        fused_from(b.attention, joined_as_they_are(b.attention, 3))


@thread("NVIDIA-NeMo/Automodel#1324", "weight.shards weight.order.per_group", "qwen2-window", "everything states logits")
def fused_cut_by_ranks(port):
    """[q | k | v] cut into equal parts: the first rank has all queries and some keys."""
    for _, b in each(port):
        fused_from(b.attention, cut_in_equal_parts(b.attention, 2))


@thread("NVIDIA-NeMo/Automodel#1324", "weight.shards", "phi3-su", "everything states")
def fused_cut_by_three_ranks(port):
    for _, b in each(port):
        fused_from(b.attention, cut_in_equal_parts(b.attention, 3))


@thread("vllm-project/vllm-gguf-plugin#103", "weight.shards", "llama3.2", "everything states logits modules")
def first_shard_in_every_rank(port):
    for _, b in each(port):
        for p in (b.attention.q, b.attention.k, b.attention.v):
            columns(p, np.tile(np.arange(p.weight.shape[1] // 2), 2))


@thread("vllm-project/vllm-gguf-plugin#103", "mlp.shards", "llama2-gqa", "everything states logits")
def first_shard_of_gate_and_up(port):
    for _, b in each(port):
        for p in (b.feed_forward.pre, b.feed_forward.up):
            columns(p, np.tile(np.arange(p.weight.shape[1] // 2), 2))


@thread("no thread", "weight.shards.v", "llama2-gqa", "everything states modules")
def values_of_ranks_exchanged(port):
    for _, b in each(port):
        p = b.attention.v
        columns(p, np.roll(np.arange(p.weight.shape[1]), p.weight.shape[1] // 2))


@thread("no thread", "weight.shards.q", "qwen3-untied", "everything states logits")
def queries_of_ranks_reversed(port):
    for _, b in each(port):
        p = b.attention.q
        columns(p, np.concatenate(np.split(np.arange(p.weight.shape[1]), 3)[::-1]))


@thread("no thread", "mlp.shards", "llama3.2", "everything modules")
def gate_and_up_of_ranks_sorted_by_name(port):
    """Any order of parts is found where the product is known: here 0, 2, 1, 3."""
    for _, b in each(port):
        for p in (b.feed_forward.pre, b.feed_forward.up):
            parts = np.split(np.arange(p.weight.shape[1]), 4)
            columns(p, np.concatenate([parts[i] for i in (0, 2, 1, 3)]))


@thread("no thread", "weight.shards.o", "llama3.2", "everything states modules logits")
def heads_of_ranks_gathered_reversed(port):
    for _, b in each(port):
        w = b.attention.o.weight
        b.attention.o.weight = np.roll(w, len(w) // 2, 0)


@thread("no thread", "weight.shards.o", "qwen2-window", "states logits")
def output_of_one_rank(port):
    for _, b in each(port):
        w = b.attention.o.weight.copy()
        w[len(w) // 2:] = 0
        b.attention.o.weight = w


@thread("no thread", "mlp.shards", "gpt2", "everything states", layers=[2])
def down_of_ranks_exchanged(port):
    for _, b in each(port, [2]):
        w = b.feed_forward.out.weight
        b.feed_forward.out.weight = np.roll(w, len(w) // 2, 0)


@thread("tenstorrent/tt-metal#52818", "mlp.sharded", "llama2-gqa", "everything states logits modules")
def gate_up_of_four_ranks(port):
    for _, b in each(port):
        gate_up_from(b.feed_forward, lambda q: [q[i] for i in (0, 4, 1, 5, 2, 6, 3, 7)])


@thread("NVIDIA-NeMo/Automodel#1324", "mlp.sharded", "phi3-su", "everything states logits")
def gate_up_cut_by_four_ranks(port):
    for _, b in each(port):
        gate_up_from(b.feed_forward, lambda q: [q[i] for i in (0, 2, 4, 6, 1, 3, 5, 7)])


def gate_up_from(f, order):
    parts = (f.pre, f.up)
    weight = np.concatenate([p.weight for p in parts], 1)
    bias = np.concatenate([np.broadcast_to(p.bias, p.weight.shape[1:]) for p in parts])
    taken = np.concatenate(order(np.split(np.arange(weight.shape[1]), 8)))
    for p, at in zip(parts, np.split(taken, 2)):
        p.weight = weight[:, at]
        if not isinstance(p.bias, float):
            p.bias = bias[at]


@thread("no thread", "embed.shards", "llama2-gqa", "everything states logits", ends=True)
def embedding_of_one_rank(port):
    port.words = port.words.copy()
    port.words[(len(port.words) + 1) // 2:] = 0


@thread("no thread", "head.shards", "llama3.2", "states_and_logits logits", ends=True)
def vocabulary_of_ranks_exchanged(port):
    """83 tokens: the last part is one shorter."""
    d = port.model.head.decoder
    columns(d, np.roll(np.arange(d.weight.shape[1]), d.weight.shape[1] // 2))


# Multiplied --------------------------------------------------------------------------------------------

def run_as(port, shape, layers=None):
    for n, _ in each(port, layers):
        port.of[n]["shape"] = shape


def multiplied(a=1.0, m=1.0, x=1.0):
    def run(b, t, s, A, F):
        r = t("residual", x * s + a * A(b.n1(s)))
        return x * r + m * F(b.n2(r))
    return run


@thread("ndif-team/nnterp#54", "block.residual.scaled", "gpt2", "everything states logits")
def results_over_root_of_2L(port):
    run_as(port, multiplied(6 ** -0.5, 6 ** -0.5))


@thread("ndif-team/nnterp#54", "block.residual.scaled", "llama2-gqa", "everything states logits")
def scale_depth(port):
    """MiniCPM's 1.4 / √L."""
    run_as(port, multiplied(0.7, 0.7))


@thread("no thread", "block.residual.scaled", "qwen3-untied", "everything states", layers=[1])
def attention_halved_in_one_layer(port):
    run_as(port, multiplied(0.5), [1])


@thread("no thread", "block.residual.scaled residual.output", "llama3.2", "everything states logits modules")
def attention_doubled(port):
    run_as(port, multiplied(2.0))


@thread("no thread", "block.residual.scaled", "neox-parallel", "everything states logits")
def parallel_feed_forward_halved(port):
    run_as(port, lambda b, t, x, A, F: x + A(b.n1(x)) + 0.5 * F(b.n2(x)))


@thread("fchollet/deep-learning-models#99", "block.residual.scaled", "llama2-gqa", "everything states logits")
def stream_scaled_not_the_result(port):
    run_as(port, multiplied(x=0.22))


@thread("no thread", "block.residual.scaled", "gpt2", "everything states logits")
def sums_over_root_of_two(port):
    c = 2 ** -0.5
    run_as(port, multiplied(c, c, c))


@thread("no thread", "block.residual.scaled", "bert", "everything states")
def deepnorm(port):
    def run(b, t, x, A, F):
        r = b.n1(t("residual", 2.0 * x + A(x)))
        return b.n2(2.0 * r + F(r))
    run_as(port, run)


@thread("no thread", "block.residual.scaled", "gemma2", "everything states logits")
def sandwich_results_multiplied(port):
    def run(b, t, x, A, F):
        r = t("residual", x + 0.3 * t("attn_add", b.n2(A(b.n1(x)))))
        return r + 0.3 * t("mlp_add", b.n4(F(b.n3(r))))
    run_as(port, run)


@thread("vllm-project/vllm#52158", "embed.scale", "llama2-gqa", "everything states logits", ends=True)
def rows_times_twelve(port):
    port.at["factor"] = 12.0


@thread("ndif-team/nnterp#54", "multiplied", "llama2-gqa", "everything modules")
def attention_in_multiplier(port):
    """Falcon-H1's."""
    def run(b, t, x, A, F):
        r = t("residual", x + A(0.5 * b.n1(x)))
        return r + F(b.n2(r))
    run_as(port, run)


# Norms -----------------------------------------------------------------------------------------------

@thread("no thread", "block_norm.place", "llama3.2", "everything states logits modules")
def norms_behind_results(port):
    """OLMo 2's places, in a LLaMA."""
    def run(b, t, x, A, F):
        r = t("residual", x + b.n1(A(x)))
        return r + b.n2(F(r))
    run_as(port, run)


@thread("no thread", "block_norm.place", "gpt2", "everything states logits")
def second_norm_behind_the_sum(port):
    def run(b, t, x, A, F):
        r = t("residual", x + A(b.n1(x)))
        return b.n2(r + F(r))
    run_as(port, run)


@thread("no thread", "block_norm.place", "llama2-gqa", "everything states")
def first_norm_behind_the_sum(port):
    def run(b, t, x, A, F):
        r = b.n1(t("residual", x + A(x)))
        return r + F(b.n2(r))
    run_as(port, run)


@thread("no thread", "block_norm.place", "gemma2", "everything states logits")
def sandwich_norms_behind_sums(port):
    def run(b, t, x, A, F):
        r = b.n2(t("residual", x + A(b.n1(x))))
        return b.n4(r + F(b.n3(r)))
    run_as(port, run)


@thread("no thread", "block_norm.place", "bert", "everything states logits")
def results_normed_before_the_sum(port):
    def run(b, t, x, A, F):
        r = t("residual", x + b.n1(A(x)))
        return r + b.n2(F(r))
    run_as(port, run)


@thread("no thread", "block_norm.missing", "bert", "everything states logits")
def neither_norm_in_bert(port):
    def run(b, t, x, A, F):
        r = t("residual", x + A(x))
        return r + F(r)
    run_as(port, run)


def each_norm(port, of, slots=("n1", "n2", "n3", "n4"), last=False):
    for _, b in each(port):
        for slot in slots:
            if isinstance(getattr(b, slot), Norm):
                setattr(b, slot, of(getattr(b, slot)))
    if last:
        port.at["norm"] = of(port.model.final)


FORMS = "input_norm.form block_norm.form last_norm.form"


@thread("allenai/OLMo#281", FORMS, "llama3.2", "everything states logits", ends=True)
def divided_by_the_length(port):
    each_norm(port, lambda n: lambda x: x / np.sqrt((x * x).sum(-1, keepdims=True) + n.eps) * n.weight + n.bias, last=True)


@thread("hw-native-sys/pypto-lib#111", FORMS, "llama2-gqa", "everything states logits", ends=True)
def divided_by_the_variance(port):
    each_norm(port, lambda n: lambda x: x / ((x * x).mean(-1, keepdims=True) + n.eps) * n.weight, last=True)


@thread("no thread", FORMS, "gpt2", "everything states")
def bias_before_the_weight(port):
    each_norm(port, lambda n: lambda x: (altered(altered(n, "bare"), "no_bias")(x) + n.bias) * n.weight)


@thread("no thread", FORMS, "gpt2", "everything states logits")
def centred_over_the_mean_square(port):
    each_norm(port, lambda n: lambda x: (x - x.mean(-1, keepdims=True)) / np.sqrt((x * x).mean(-1, keepdims=True) + n.eps) * n.weight + n.bias)


@thread("no thread", FORMS, "llama3.2", "everything states")
def statistics_of_all_rows(port):
    each_norm(port, lambda n: lambda x: x / np.sqrt((x * x).mean() + n.eps) * n.weight)


@thread("NeuraLegion/shainet#176", "block_norm.one_plus", "gemma2", "everything states logits")
def one_norm_without_the_one(port):
    each_norm(port, lambda n: altered(n, "minus_one"), ("n3",))


@thread("llmmanorg/llmman#151", "block_norm.one_plus", "gemma2", "everything states logits")
def norms_behind_without_the_one(port):
    each_norm(port, lambda n: altered(n, "minus_one"), ("n2", "n4"))


@thread("llmmanorg/llmman#151", "norm.one_plus", "gemma3-layer-types", "everything states")
def q_norm_without_the_one(port):
    for _, b in each(port):
        b.attention.q_norm = altered(b.attention.q_norm, "minus_one")


@thread("no thread", "norm.exchanged", "qwen3-untied", "everything states")
def one_norm_for_q_and_k(port):
    for _, b in each(port):
        b.attention.k_norm = b.attention.q_norm


@thread("no thread", "norm.layer", "qwen3-untied", "everything states")
def q_norm_subtracts_the_mean(port):
    for _, b in each(port):
        b.attention.q_norm = altered(b.attention.q_norm, "kind")


@thread("no thread", "norm.added.v", "qwen3-untied", "everything states")
def values_normed(port):
    for _, b in each(port):
        old, norm, heads = b.attention.v, b.attention.k_norm, b.attention.num_kv_heads
        b.attention.v = lambda x, old=old, norm=norm, heads=heads: norm(old(x).reshape(len(x), heads, -1)).reshape(len(x), -1)


@thread("no thread", "embed.norm.place", "bert", "everything states logits", ends=True)
def normed_before_positions(port):
    port.embedded = lambda ids: port.embed_norm(port.words[ids]) + port.places[port.positions] + port.types[0]


# Memory ----------------------------------------------------------------------------------------------

@thread("no thread", "block.mlp.input", "llama3.2", "everything states logits modules")
def feed_forward_reads_attention_s_input(port):
    def run(b, t, x, A, F):
        y = b.n1(x)
        r = t("residual", x + A(y))
        return r + F(y)
    run_as(port, run)


@thread("no thread", "block.mlp.input", "llama2-gqa", "everything states logits")
def feed_forward_reads_attention_s_result(port):
    def run(b, t, x, A, F):
        a = A(b.n1(x))
        r = t("residual", x + a)
        return r + F(b.n2(a))
    run_as(port, run)


@thread("sgl-project/sglang#28005", "block.residual.twice", "qwen3-untied", "everything states logits")
def attention_added_in_place_and_again(port):
    def run(b, t, x, A, F):
        a = A(b.n1(x))
        r = t("residual", x + a)
        return r + a + F(b.n2(r))
    run_as(port, run)


@thread("1bit-MONSTER/1bit-MONSTER#1342", "mlp.gate.same", "llama2-gqa", "everything states logits")
def other_factor_overwritten_by_the_gate(port):
    for n, _ in each(port):
        port.of[n]["product"] = lambda act, g, u: act(g) * g


@thread("no thread", "mlp.gate.same", "gemma2", "everything states logits")
def gate_overwritten_by_the_other_factor(port):
    for n, _ in each(port):
        port.of[n]["product"] = lambda act, g, u: act(u) * u


@thread("no thread", "mlp.activation", "llama3.2", "everything states logits")
def activated_twice(port):
    for n, _ in each(port):
        port.of[n]["product"] = lambda act, g, u: act(act(g)) * u


@thread("no thread", "mlp.activated_other", "qwen2-window", "everything states logits")
def both_activated(port):
    for n, _ in each(port):
        port.of[n]["product"] = lambda act, g, u: act(g) * act(u)


def attention_with(port, edit):
    """Attention whose q, k and v, as they enter the scores, and whose weights an edit may replace."""
    def attention(a, w, t, x):
        T = len(x)
        x = t("x", x)
        cut = lambda y, heads: y.reshape(T, heads, -1).transpose(1, 0, 2)
        s = {"q": cut(a.q(x), a.num_heads), "k": cut(a.k(x), a.num_kv_heads), "v": cut(a.v(x), a.num_kv_heads)}
        plain = dict(s)
        if a.q_norm:
            s["q"], s["k"] = a.q_norm(s["q"]), a.k_norm(s["k"])
            t("q_norm", s["q"]), t("k_norm", s["k"])
        turn = (lambda y: a.rope(y, port.positions)) if a.rope else lambda y: y
        s["q"], s["k"] = turn(s["q"]), turn(s["k"])
        edit(s, turn)
        t("q", plain["q"]), t("k", plain["k"]), t("v", s["v"])
        if a.rope:
            t("q_rope", s["q"]), t("k_rope", s["k"])
        which = [h * a.num_kv_heads // a.num_heads for h in range(a.num_heads)]
        scores = t("scaled", t("scores", np.einsum("htd,hsd->hts", s["q"], s["k"][which])) * a.scale)
        i, j = np.arange(T)[:, None], np.arange(T)[None]
        see = (j <= i) & ((i - j < a.window) if a.window else True)
        scores = t("masked", np.where(see, scores, -np.inf))
        e = np.exp(scores - scores.max(-1, keepdims=True))
        p = t("weights", s.get("p", lambda p: p)(e / e.sum(-1, keepdims=True)))
        z = t("head_out", np.einsum("hts,hsd->htd", p, s["v"][which]))
        return t("output", a.o(t("concat", z.transpose(1, 0, 2).reshape(T, -1))))
    port.attention = attention


@thread("no thread", "buffer.v", "llama2-gqa", "everything states logits")
def values_read_the_rotated_keys(port):
    attention_with(port, lambda s, turn: s.update(v=s["k"]))


@thread("no thread", "rope.twice", "qwen3-untied", "everything states logits")
def cached_keys_rotated_again(port):
    attention_with(port, lambda s, turn: s.update(k=turn(s["k"])))


@thread("no thread", "buffer.late", "llama3.2", "everything states")
def cache_written_one_place_too_far(port):
    late = lambda y: np.concatenate([y[:, :1], y[:, :-1]], 1)
    attention_with(port, lambda s, turn: s.update(k=late(s["k"]), v=late(s["v"])))


@thread("no thread", "buffer.weights", "gpt2", "everything states")
def weights_of_the_last_head(port):
    attention_with(port, lambda s, turn: s.update(p=lambda p: np.repeat(p[-1:], len(p), 0)))


@thread("no thread", "buffer.row", "llama3.2", "states_and_logits logits", ends=True)
def logits_of_the_last_token_for_all(port):
    port.at["logits"] = lambda y: np.repeat(y[-1:], len(y), 0)


# The end ---------------------------------------------------------------------------------------------

def head_of(port, stream):
    port.at["no_norm"] = True
    head = port.model.head = copy.copy(port.model.head)
    old = head.transform
    head.transform = lambda x: old(stream())


@thread("no thread", "head.input", "llama3.2", "states_and_logits logits", ends=True)
def logits_of_the_embedding(port):
    """The last norm and the head read the first buffer of two."""
    head_of(port, lambda: port.model.final(port.s["embed"]))


@thread("no thread", "head.input", "gpt2", "states_and_logits logits", ends=True)
def logits_of_the_embedding_as_it_is(port):
    head_of(port, lambda: port.s["embed"])


@thread("no thread", "last_norm.twice", "llama3.2", "states_and_logits logits", ends=True)
def last_norm_in_the_head_again(port):
    port.model.head.transform = port.model.final


@thread("no thread", "last_norm.other", "qwen3-untied", "states logits", ends=True)
def last_norm_of_the_first_layer(port):
    port.at["norm"] = port.blocks[0].n1


@thread("no thread", "head.bias", "bert", "states_and_logits logits", ends=True)
def head_bias_twice(port):
    port.model.head.decoder.bias = port.model.head.decoder.bias * 2


@thread("dphnAI/sonar#1054", "head.scale", "gemma2", "states_and_logits logits", ends=True)
def scaled_before_the_cap(port):
    port.model.head.decoder.weight = port.model.head.decoder.weight / 16


# Settings of some layers ------------------------------------------------------------------------------

WINDOWS = "window.layers window.missing window.added window.length"
ROTATIONS = "rope.layers rope.base rope.frequencies rope.scaling.added rope.scaling.missing"


@thread("NVIDIA-NeMo/Megatron-Bridge#4875", WINDOWS, "gemma2", "everything states logits")
def windows_inverted(port):
    own = [b.attention.window for b in port.blocks]
    for n, b in each(port):
        b.attention.window = None if own[n] else max(w for w in own if w)


@thread("Lightning-AI/litgpt#1995", WINDOWS, "gemma3-layer-types", "everything states logits")
def windows_one_layer_further(port):
    own = [b.attention.window for b in port.blocks]
    for n, b in each(port):
        b.attention.window = own[n - 1]


@thread("no thread", WINDOWS, "qwen2-window", "everything states logits")
def windows_below_max_window_layers(port):
    for n, b in each(port):
        b.attention.window = 5 if n < 1 else None


@thread("no thread", ROTATIONS, "gemma3-layer-types", "everything states logits")
def rotations_exchanged(port):
    ropes = [b.attention.rope for b in port.blocks]
    for n, b in each(port):
        b.attention.rope = ropes[1] if n in (0, 3) else ropes[0]


@thread("ollama/ollama#12348", ROTATIONS, "gemma3-layer-types", "everything states logits")
def factor_eight_on_all_layers(port):
    for _, b in each(port):
        frequencies(b, lambda f: f / 8)


@thread("no thread", "rope.missing", "llama2-gqa", "everything states logits", layers=[3])
def no_rotation_in_every_fourth_layer(port):
    """SmolLM3's pattern, in a LLaMA."""
    port.blocks[3].attention.rope = None


@thread("no thread", "rope.missing", "llama3.2", "everything states logits", layers=[1, 3])
def no_rotation_in_every_second_layer(port):
    for _, b in each(port, [1, 3]):
        b.attention.rope = None


@thread("no thread", "softcap.missing", "gemma2", "states logits", layers=[1, 3])
def no_cap_in_every_second_layer(port):
    for _, b in each(port, [1, 3]):
        b.attention.softcap = None


if __name__ == "__main__":
    sys.exit(main())
