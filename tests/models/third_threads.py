#!/usr/bin/env python3
"""Wrong ports from public threads, third part: what neither threads.py nor more_threads.py has a counterpart of.

    /usr/bin/python3 tests/models/third_threads.py PROGRAM MODELS [--only WORD] [--show] [--keep FOLDER] [-j N]
"""
import copy
import sys

import numpy as np

from forward import ACTIVATIONS, sigmoid
from mistakes import to_bfloat16
from thread_ports import each, frequencies, main, thread
from unseen import altered


# Norms -----------------------------------------------------------------------------------------------

@thread("tracel-ai/burn#1054", "block.residual.normalised", "gpt2", "everything states modules")
def both_residuals_normalised(port):
    """x = norm(x); x += f(x), for attention as for the feed-forward."""
    def run(b, t, x, A, F):
        y = b.n1(x)
        r = b.n2(t("residual", y + A(y)))
        return r + F(r)
    for n, _ in each(port):
        port.of[n]["shape"] = run


@thread("vllm-project/vllm#16311", "norm.full", "qwen3-untied", "everything states modules vllm")
def qk_norms_over_all_heads(port):
    def whole(norm):
        def run(y):  # H, T, d
            flat = y.transpose(1, 0, 2).reshape(y.shape[1], -1)
            mean = (flat * flat).mean(-1)[None, :, None]
            return y / np.sqrt(mean + norm.eps) * norm.weight
        return run
    for _, b in each(port):
        b.attention.q_norm, b.attention.k_norm = whole(b.attention.q_norm), whole(b.attention.k_norm)


@thread("kyegomez/MegaVIT#17", "norm.missing.q", "qwen3-untied", "everything states", says="(?i)q_norm|v ")
def keys_and_values_normalised(port):
    for n, b in each(port):
        a = b.attention
        norm, old = a.q_norm, a.v
        a.q_norm = lambda y: y
        heads = a.num_kv_heads
        a.v = lambda x, old=old, norm=norm, heads=heads: norm(old(x).reshape(len(x), heads, -1)).reshape(len(x), -1)


@thread("ml-explore/mlx-lm#1624", "norm.sum norm.eps", "qwen3-untied", "everything states")
def qk_norms_to_length_one(port):
    for _, b in each(port):
        for slot in ("q_norm", "k_norm"):
            norm = getattr(b.attention, slot)
            setattr(b.attention, slot, lambda y, norm=norm: y / np.sqrt((y * y).sum(-1, keepdims=True) + norm.eps) * norm.weight)


@thread("apple/coremltools#2822", "input_norm.eps input_norm.form block_norm.eps block_norm.form last_norm.form", "bard-llama",
        "everything states", precision="f64", ends=True)
def eps_grows_with_the_largest(port):
    """Rows are divided by their largest number, and eps is added behind."""
    def of(norm):
        def run(x):
            m = np.abs(x).max(-1, keepdims=True)
            return x / m / np.sqrt((x * x / m ** 2).mean(-1, keepdims=True) + norm.eps) * norm.weight
        return run
    for _, b in each(port):
        b.n1, b.n2 = of(b.n1), of(b.n2)
    port.at["norm"] = of(port.model.final)


@thread("NVIDIA/TransformerEngine#364", "input_norm.form block_norm.form last_norm.form", "bard-llama", "everything states modules",
        precision="f64", ends=True)
def eps_outside_the_root(port):
    def of(norm):
        return lambda x: x / (np.sqrt((x * x).mean(-1, keepdims=True)) + norm.eps) * norm.weight
    for _, b in each(port):
        b.n1, b.n2 = of(b.n1), of(b.n2)
    port.at["norm"] = of(port.model.final)


@thread("NVIDIA-NeMo/Megatron-Bridge#4200", "block_norm.other", "gemma2", "states llama_cpp modules")
def norm_behind_attention_before_the_feed_forward(port):
    for _, b in each(port):
        b.n3 = b.n2


@thread("LBANN/lbann#2024", "input_norm.form block_norm.form last_norm.form", "gpt2", "modules states logits", ends=True)
def variance_of_a_sample(port):
    for _, b in each(port):
        b.n1, b.n2 = altered(b.n1, "sample"), altered(b.n2, "sample")
    port.at["norm"] = altered(port.model.final, "sample")


@thread("vllm-project/vllm#29810", "block_norm.rounded", "gemma2", "modules states")
def one_plus_rounded(port):
    """1 + w in bfloat16."""
    for _, b in each(port):
        for slot in ("n1", "n2", "n3", "n4"):
            norm = copy.copy(getattr(b, slot))
            norm.weight = to_bfloat16(norm.weight)
            setattr(b, slot, norm)


# Heads, scores, masks --------------------------------------------------------------------------------

@thread("Wenyueh/MinivLLM#80", "bias.times.o mlp.bias.times", "gpt2", "states modules logits")
def row_parallel_biases_twice(port):
    for _, b in each(port):
        b.attention.o.bias = b.attention.o.bias * 2
        b.feed_forward.out.bias = b.feed_forward.out.bias * 2


@thread("alibaba/ChatLearn#277", "weight.order.per_group weight.order weight.order.per_head", "phi3-su", "everything states")
def fused_rows_by_group(port):
    """Rows of (q of a group, its key, its value), taken apart as if all queries stood first."""
    for _, b in each(port):
        a = b.attention
        G, H = a.num_kv_heads, a.num_heads
        d = a.k.weight.shape[1] // G
        part = lambda p, heads: p.weight.T.reshape(G, heads // G * d, -1)
        rows = np.concatenate([part(a.q, H), part(a.k, G), part(a.v, G)], 1).reshape(-1, a.q.weight.shape[0])
        q, k, v = np.split(rows, [H * d, (H + G) * d])
        a.q.weight, a.k.weight, a.v.weight = q.T, k.T, v.T


@thread("tinygrad/tinygrad#2228", "weight.rows", "qwen2-window", "everything states llama_cpp")
def keys_permuted_as_many_heads(port):
    """Rows of GGUF's order turned back as if the keys had as many heads as the queries; their bias with them."""
    for _, b in each(port):
        a = b.attention
        w, H = np.concatenate([a.k.weight.T, a.k.bias[:, None]], 1), a.num_heads
        G, d = a.num_kv_heads, len(w) // a.num_kv_heads
        converted = w.reshape(G, 2, d // 2, -1).swapaxes(1, 2).reshape(w.shape)
        w = converted.reshape(H, len(w) // H // 2, 2, -1).swapaxes(1, 2).reshape(w.shape)
        a.k.weight, a.k.bias = w[:, :-1].T, w[:, -1]


@thread("stanford-crfm/mistral#77", "scale.constant", "gpt2", "everything states modules", layers=[1, 2])
def scale_by_the_layer(port):
    for n, b in each(port):
        b.attention.scale /= n + 1


@thread("jsbaan/transformer-from-scratch#6", "heads.unmerged", "gpt2", "everything states logits")
def heads_joined_without_transposing(port):
    for n, _ in each(port):
        port.of[n]["unmerged"] = True


@thread("lucidrains/x-transformers#182", "rope.values", "qwen3-untied", "everything states")
def values_turned_too(port):
    for n, b in each(port):
        a = b.attention
        old, rope, G = a.v, a.rope, a.num_kv_heads

        def run(x, old=old, rope=rope, G=G):
            y = old(x).reshape(len(x), G, -1).transpose(1, 0, 2)
            return rope(y, port.positions).transpose(1, 0, 2).reshape(len(x), -1)
        a.v = run


@thread("Lightning-AI/litgpt#2182", "", "gemma3-layer-types", "everything states", says="(?i)(mask|window|quer|token|key)")
def ring_buffer_in_prefill(port):
    """Keys are written at their position modulo the window, and masked as if they were not."""
    def attention(a, w, t, x):
        T = len(x)
        x = t("x", x)
        cut = lambda y, heads: y.reshape(T, heads, -1).transpose(1, 0, 2)
        q, k, v = cut(a.q(x), a.num_heads), cut(a.k(x), a.num_kv_heads), t("v", cut(a.v(x), a.num_kv_heads))
        q, k = t("q", q), t("k", k)
        q, k = t("q_norm", a.q_norm(q)), t("k_norm", a.k_norm(k))
        q, k = t("q_rope", a.rope(q, port.positions)), t("k_rope", a.rope(k, port.positions))
        slots = np.arange(T)
        if a.window and a.window < T:
            slots = np.array([max(p for p in range(T) if p % a.window == s) for s in range(a.window)])
        k, v = k[:, slots], v[:, slots]
        which = [h * a.num_kv_heads // a.num_heads for h in range(a.num_heads)]
        s = np.einsum("htd,hsd->hts", q, k[which]) * a.scale
        see = np.arange(len(slots))[None] <= np.arange(T)[:, None]
        s = np.where(see, s, -np.inf)
        e = np.exp(s - s.max(-1, keepdims=True))
        z = t("head_out", np.einsum("hts,hsd->htd", e / e.sum(-1, keepdims=True), v[which]))
        return t("output", a.o(t("concat", z.transpose(1, 0, 2).reshape(T, -1))))
    port.attention = attention


@thread("lablup/mlxcel#412", "", "gemma3-layer-types", "states everything", says="(?i)nan")
def earliest_rows_see_nothing(port):
    """The window's mask is cut to its last columns: rows before it are NaN from the first such layer on."""
    old = port.attention

    def attention(a, w, t, x):
        y = old(a, w, t, x)
        if a.window and a.window < len(x):
            y = y.copy()
            y[:len(x) - a.window] = np.nan
            t("output", y)
        return y
    port.attention = attention


@thread("pegainfer-project/pegainfer#350", "softmax.plus_one", "qwen3-untied", "everything states", says="(?i)(sum of the softmax|softmax)")
def a_page_of_zeros_attended(port):
    """Six keys of a fresh page: scores 0, values 0."""
    for n, _ in each(port):
        port.of[n]["more"] = 6.0


@thread("pytorch/torchtitan#2211", "softmax.plus_one sinks", "llama3.2", "everything states", says="(?i)softmax|head_out")
def gated_by_a_sigmoid(port):
    """A sink's part taken as sigmoid(lse): e^s / (1 + sum e^s) times the softmax."""
    for n, _ in each(port):
        port.of[n]["more"] = 1.0


# Rotary ----------------------------------------------------------------------------------------------

@thread("huggingface/transformers#48652", "rope.frequencies rope.dims", "neox-parallel", "everything states modules")
def frequencies_of_the_whole_head(port):
    for _, b in each(port):
        d = b.attention.q.weight.shape[1] // b.attention.num_heads
        n = len(np.asarray(b.attention.rope.frequencies))
        frequencies(b, lambda f: 10000.0 ** (-2 * np.arange(n) / d))


def yarn_of(port, block):
    """Plain frequencies, how far each is on the ramp (0 stays, 1 is divided), the base and the factor."""
    theta = np.asarray(block.attention.rope.frequencies)
    c = port.config.get("rope_scaling") or port.config["rope_parameters"]
    n, base, s = 2 * len(theta), port.config.get("rope_theta", c.get("rope_theta")), c["factor"]
    plain = base ** (-np.arange(0, n, 2) / n)
    return plain, (1 - theta / plain) / (1 - 1 / s), base, s


@thread("paiml/aprender#2161", "rope.scaling.kind rope.scaling.ramp rope.frequencies rope.base", "qwen3-yarn", "everything states")
def yarn_over_a_stretched_base(port):
    """The ramp mixes θ/s with frequencies of the base that NTK stretches."""
    for _, b in each(port):
        plain, share, base, s = yarn_of(port, b)
        n = 2 * len(plain)
        stretched = (base * s ** (n / (n - 2))) ** (-np.arange(0, n, 2) / n)
        frequencies(b, lambda f: stretched * (1 - share) + plain / s * share)


@thread("apache/tvm#18576", "rope.scaling.ramp rope.scaling.kind", "qwen3-yarn", "everything states")
def yarn_ramp_not_rounded(port):
    """low and high of the ramp without floor and ceiling."""
    for _, b in each(port):
        theta = np.asarray(b.attention.rope.frequencies)
        c = port.config.get("rope_scaling") or port.config["rope_parameters"]
        base = port.config.get("rope_theta", c.get("rope_theta"))
        n, s, original = 2 * len(theta), c["factor"], c["original_max_position_embeddings"]
        plain = base ** (-np.arange(0, n, 2) / n)
        pair = lambda turns: n * np.log(original / (turns * 2 * np.pi)) / (2 * np.log(base))
        low, high = max(pair(32), 0), min(pair(1), n - 1)
        share = np.clip((np.arange(len(theta)) - low) / (high - low), 0, 1)
        frequencies(b, lambda f: plain / s * share + plain * (1 - share))


@thread("mlx-node/mlx-node#60", "rope.scaling.kind rope.scaling.ramp rope.frequencies", "qwen3-yarn", "everything states")
def yarn_mixes_wavelengths(port):
    """Periods are mixed where frequencies are."""
    for _, b in each(port):
        plain, share, _, s = yarn_of(port, b)
        frequencies(b, lambda f: 1 / (s / plain * share + (1 - share) / plain))


@thread("ml-explore/mlx#261", "rope.scaling.inverted rope.scaling.missing rope.scaling.kind", "llama2-linear-rope", "everything states")
def linear_factor_multiplies(port):
    for _, b in each(port):
        factor = port.config["rope_scaling"]["factor"]
        frequencies(b, lambda f: f * factor ** 2)


@thread("ggml-org/llama.cpp#8676", "rope.scaling.kind rope.scaling.factor rope.scaling.ramp rope.scaling.missing", "llama3.1", "everything states")
def llama3_bands_exchanged(port):
    """low_freq_factor and high_freq_factor exchanged: two bands, no ramp."""
    c = port.config["rope_scaling"]
    for _, b in each(port):
        n = 2 * len(np.asarray(b.attention.rope.frequencies))
        plain = port.config["rope_theta"] ** (-np.arange(0, n, 2) / n)
        turns = c["original_max_position_embeddings"] * plain / (2 * np.pi)
        frequencies(b, lambda f: np.where(turns > c["low_freq_factor"], plain, plain / c["factor"]))


# Feed-forward and blocks -----------------------------------------------------------------------------

@thread("sgl-project/sglang#39939", "mlp.gate.plus_one", "llama3.2", "everything states modules")
def up_plus_one(port):
    """GPT-OSS's product: gate · σ(1.702 gate) · (up + 1)."""
    for n, _ in each(port):
        port.of[n]["product"] = lambda act, g, u: g * sigmoid(1.702 * g) * (u + 1)


@thread("microsoft/onnxruntime#27221", "mlp.missing", "llama2-gqa", "everything states", says="(?i)zero")
def product_clamped_to_zero(port):
    for n, _ in each(port):
        port.of[n]["product"] = lambda act, g, u: 0 * g


@thread("anthony-chaudhary/fak#4837", "mlp.clamp mlp.activation", "llama2-gqa", "everything states", says="(?i)mlp_act")
def gate_and_up_clamped(port):
    for n, _ in each(port):
        port.of[n]["product"] = lambda act, g, u: act(np.minimum(g, 0.5)) * np.clip(u, -0.5, 0.5)


@thread("ndif-team/nnterp#54", "block.residual.scaled", "llama3.2", "everything states modules")
def results_multiplied(port):
    """Granite's residual_multiplier, given to a model that has none."""
    def run(b, t, x, A, F):
        r = t("residual", x + 0.22 * A(b.n1(x)))
        return r + 0.22 * F(b.n2(r))
    for n, _ in each(port):
        port.of[n]["shape"] = run


@thread("habla-liaa/encodecmae#3", "block.weights.other", "gpt2", "everything states modules", layers=[1, 2])
def one_feed_forward_for_all(port):
    for _, b in each(port):
        b.feed_forward = port.original[0].feed_forward


@thread("zalandoresearch/pytorch-vq-vae#2", "block.weights.other block.twice", "llama3.2", "everything states modules", layers=[1, 2, 3])
def one_layer_for_all(port):
    """[layer] * n: one object n times."""
    for n, _ in each(port):
        port.blocks[n] = copy.deepcopy(port.original[0])


@thread("b4rtaz/distributed-llama#52", "block.weights.other", "llama2-gqa", "states everything logits")
def layers_in_another_order(port):
    """Names in the order of their letters: here the layers are turned round."""
    for n, _ in each(port):
        port.blocks[n] = copy.deepcopy(port.original[len(port.blocks) - 1 - n])


@thread("b4rtaz/distributed-llama#52", "mlp.transposed mlp.swapped mlp.weights", "llama2-gqa", "states everything",
        says="(?i)mlp")
def gate_and_up_exchanged(port):
    for _, b in each(port):
        f = b.feed_forward
        f.pre, f.up = f.up, f.pre


@thread("jadore801120/attention-is-all-you-need-pytorch#138", "head.scale", "gpt2", "states_and_logits logits", ends=True)
def logits_over_root_of_width(port):
    d = port.words.shape[1]
    port.at["logits"] = lambda y: y * d ** -0.5


@thread("vllm-project/vllm#52158", "head.scale", "llama3.2", "states_and_logits logits", ends=True)
def logits_divided_by_eight(port):
    port.at["logits"] = lambda y: y / 8


@thread("no thread", "embed.positions.twice embed.positions block.positions", "gpt2", "everything states",
        says="(?i)position")
def positions_added_in_every_layer(port):
    table = port.places[:len(port.text)]

    def run(b, t, x, A, F):
        x = x + table
        r = t("residual", x + A(b.n1(x)))
        return r + F(b.n2(r))
    for n, _ in each(port, range(1, len(port.blocks))):
        port.of[n]["shape"] = run


# Two mistakes in one port ----------------------------------------------------------------------------

@thread("onnxruntime/mobius#363", "rope.base rope.frequencies mlp.activation", "qwen3-untied", "everything states modules")
def base_and_activation(port):
    for n, b in each(port):
        count = len(np.asarray(b.attention.rope.frequencies))
        frequencies(b, lambda f: 10000.0 ** (-np.arange(count) / count))
        port.of[n]["act"] = ACTIVATIONS["gelu"]


@thread("paiml/aprender#1604", "bias.missing bias.missing.q bias.missing.k bias.missing.v", "qwen2-window", "everything states modules")
def biases_and_eps(port):
    for _, b in each(port):
        for part in (b.attention.q, b.attention.k, b.attention.v):
            part.bias = 0.0
        b.n2 = copy.copy(b.n2)
        b.n2.eps = 1e-2


# Dropout, quantised weights, caches ----------------------------------------------------------------

@thread("huggingface/transformers#2627", "dropout.on", "gpt2", "states modules everything", says="(?i)dropout", ends=True)
def dropout_was_on(port):
    """A model that was not put into eval mode: rows of the embedding, weights and results are dropped."""
    rng = np.random.default_rng(3)
    drop = lambda y: y * (rng.random(y.shape) >= 0.1) / 0.9
    port.at["embed_norm"] = drop

    def run(b, t, x, A, F):
        r = t("residual", x + drop(A(b.n1(x))))
        return r + drop(F(b.n2(r)))
    for n, _ in each(port):
        port.of[n]["shape"] = run


def quantised(port, round_):
    for _, b in each(port):
        for m in (b.attention.q, b.attention.k, b.attention.v, b.attention.o, b.feed_forward.pre, b.feed_forward.up, b.feed_forward.out):
            if m is not None:
                m.weight = round_(m.weight)


@thread("ggml-org/llama.cpp#729", "precision.weights", "llama2-gqa", "everything states llama_cpp", says="(?i)quanti")
def weights_in_eight_bits(port):
    def q8(w):  # blocks of 32 of a row, as Q8_0
        blocks = w.T.reshape(-1, 4) if w.size % 32 else w.T.reshape(-1, 32)
        scale = np.abs(blocks).max(-1, keepdims=True) / 127
        return (np.round(blocks / scale) * scale).reshape(w.T.shape).T
    quantised(port, q8)


@thread("no thread", "precision.kv", "llama3.2", "everything states", says="(?i)(k_rope|v |round|quanti|head)")
def cache_in_eight_bits(port):
    """Keys and values in E4M3."""
    def e4m3(y):
        e = np.floor(np.log2(np.maximum(np.abs(y), 2.0 ** -6)))
        step = 2.0 ** (e - 3)
        return np.clip(np.round(y / step) * step, -448, 448)
    for n, b in each(port):
        a = b.attention
        old, G = a.v, a.num_kv_heads
        a.v = lambda x, old=old: e4m3(old(x))
        port.of[n]["turn"] = lambda r, y, p, which: e4m3(r(y, p)) if which == "k" else r(y, p)


# Captures that are none ------------------------------------------------------------------------------

@thread("facebookresearch/fairseq#2094", "", "roberta", "own", says="(?i)token")
def tokens_one_off(port):
    """A dictionary with one more token in front of all others."""
    port.run([i - 1 for i in port.text])
    return {"hidden_states": np.stack(port.states)[:, None]}


@thread("eastriverlee/LLM.swift#87", "", "bert", "own", says="(?i)(unit length|length 1|normalis|divided)")
def rows_of_length_one(port):
    """The last state, every row divided by its length."""
    port.run(port.text)
    last = port.states[-1] if port.states else port.s["layers.3.resid_post"]
    return {"last_hidden_state": (last / np.linalg.norm(last, axis=-1, keepdims=True))[None]}


@thread("ggml-org/llama.cpp#14543", "", "bert", "own", says="(?i)(mean|pool)")
def pooled_by_the_mean(port):
    port.run(port.text)
    return {f"layers.{n}.resid_post": port.s[f"layers.{n}.resid_post"] for n in range(2)} | \
        {"sentence_embedding": port.s[f"layers.{len(port.blocks) - 1}.resid_post"].mean(0)}


@thread("huggingface/transformers#18388", "", "gpt2", "own", says="(?i)(rows?|tokens?|shift)")
def logits_of_all_but_the_last(port):
    """shift_logits: what the loss is computed from."""
    port.run(port.text)
    return {"hidden_states": np.stack(port.states)[:, None], "logits": port.s["logits"][None, :-1]}


@thread("EleutherAI/sparsify#11", "", "llama3.2", "own", says="(?i)resid_pre here|handed|before|counts? from")
def states_without_the_first(port):
    """A list of what each layer was given, without the embedding."""
    port.run(port.text)
    return {f"layers.{n - 1}.resid_post": port.s[f"layers.{n}.resid_pre"] for n in range(2, 4)} | {
        f"layers.{n}.resid_post": port.s[f"layers.{n - 1}.resid_post"] for n in range(1, 4)}


@thread("p-e-w/heretic#384", "", "qwen3-untied", "own", says="(?i)last token|one row|token \\d")
def states_of_one_generated_step(port):
    """generate(): the last step's states, one row each."""
    port.run(port.text)
    return {"hidden_states": np.stack(port.states)[:, None, -1:]}


if __name__ == "__main__":
    sys.exit(main())
