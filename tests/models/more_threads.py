#!/usr/bin/env python3
"""More wrong ports from public threads, beside those of threads.py.

    /usr/bin/python3 tests/models/more_threads.py PROGRAM MODELS [--only WORD] [--show] [--keep FOLDER] [-j N]
"""
import copy
import sys

import numpy as np

from forward import ACTIVATIONS
from mistakes import to_bfloat16
from thread_ports import each, frequencies, main, split_in_three, thread
from unseen import altered


# Norms -----------------------------------------------------------------------------------------------

@thread("paiml/aprender#1606", "input_norm.eps block_norm.eps last_norm.form", "qwen3-untied", "modules states vllm", ends=True)
def eps_of_llama_in_qwen(port):
    for _, b in each(port):
        b.n1, b.n2 = copy.copy(b.n1), copy.copy(b.n2)
        b.n1.eps = b.n2.eps = 1e-4
    port.at["norm"] = copy.copy(port.model.final)
    port.at["norm"].eps = 1e-4


@thread("meta-llama/llama#771", "input_norm.eps block_norm.eps last_norm.form", "llama2-gqa", "states logits modules", ends=True)
def eps_of_the_first_release(port):
    for _, b in each(port):
        b.n1, b.n2 = copy.copy(b.n1), copy.copy(b.n2)
        b.n1.eps = b.n2.eps = 1e-3
    port.at["norm"] = copy.copy(port.model.final)
    port.at["norm"].eps = 1e-3


@thread("NVIDIA/TensorRT-LLM#4815", "norm.eps", "gemma3-layer-types", "everything modules", precision="f64")
def qk_norms_with_their_own_eps(port):
    for _, b in each(port):
        for norm in (b.attention.q_norm, b.attention.k_norm):
            norm.eps = 1e-3


@thread("ml-explore/mlx-examples#1057", "embed.scale", "gemma2-bf16", "states everything", ends=True)
def scale_in_float32(port):
    port.at["factor"] = float(port.words.shape[1]) ** 0.5


@thread("unslothai/unsloth#1057", "input_norm.one_plus block_norm.one_plus last_norm.form", "gemma", "modules states", ends=True)
def one_not_added(port):
    for _, b in each(port):
        b.n1, b.n2 = altered(b.n1, "one_plus"), altered(b.n2, "one_plus")
    port.at["norm"] = altered(port.model.final, "one_plus")


@thread("huggingface/transformers#44317", "input_norm.eps", "llama3.2", "states everything")
def eps_lost_in_one_norm(port):
    for _, b in each(port):
        b.n1 = copy.copy(b.n1)
        b.n1.eps = 1e-2


# Scores, masks, heads --------------------------------------------------------------------------------

@thread("huggingface/transformers#3181", "mask.constant", "gpt2", "everything")
def mask_of_minus_ten(port):
    """A finite number where the mask is, which scores come near."""
    mask_by_constant(port, -10.0)


def mask_by_constant(port, constant):
    """Hidden scores become a constant, which the softmax then sees."""
    def attention(a, w, t, x):
        T = len(x)
        x = t("x", x)
        cut = lambda y, heads: y.reshape(T, heads, -1).transpose(1, 0, 2)
        q, k, v = (t(name, cut(m(x), h)) for name, m, h in (("q", a.q, a.num_heads), ("k", a.k, a.num_kv_heads), ("v", a.v, a.num_kv_heads)))
        which = [h * a.num_kv_heads // a.num_heads for h in range(a.num_heads)]
        s = t("scaled", t("scores", np.einsum("htd,hsd->hts", q, k[which])) * a.scale)
        i, j = np.arange(T)[:, None], np.arange(T)[None]
        s = t("masked", np.where(j <= i, s, constant))
        e = np.exp(s - s.max(-1, keepdims=True))
        p = t("weights", e / e.sum(-1, keepdims=True))
        z = t("head_out", np.einsum("hts,hsd->htd", p, v[which]))
        return t("output", a.o(t("concat", z.transpose(1, 0, 2).reshape(T, -1))))
    port.attention = attention


@thread("mlc-ai/mlc-llm#2674", "window.missing", "gemma2", "llama_cpp states")
def every_layer_global(port):
    for _, b in each(port):
        b.attention.window = None


@thread("lablup/mlxcel#405", "window.missing window.added window.length window.layers block.settings.other causal.missing", "gemma3-layer-types", "mlx states")
def windows_on_the_other_layers(port):
    windows = [b.attention.window for b in port.blocks]
    own = next(w for w in windows if w)
    for n, b in each(port):
        b.attention.window = None if windows[n] else own


@thread("lablup/mlxcel#555", "window.plus_one window.length window.minus_one", "gemma2", "everything states")
def window_one_too_long(port):
    for _, b in each(port):
        if b.attention.window:
            b.attention.window += 1


@thread("onnxruntime/mobius#363", "scale.missing", "gemma3-layer-types", "modules states")
def scale_of_another_generation(port):
    for _, b in each(port):
        b.attention.scale = 1.0


@thread("onnx/onnx#7274", "gqa.tiled gqa.map", "llama3.2", "states everything vllm")
def heads_tiled_in_onnx(port):
    for n, b in each(port):
        port.of[n]["reads"] = lambda h, k=b.attention.num_kv_heads: h % k


@thread("apple/axlearn#842", "gqa.tiled gqa.map", "mistral-nemo", "states everything")
def heads_tiled_in_jax(port):
    for n, b in each(port):
        port.of[n]["reads"] = lambda h, k=b.attention.num_kv_heads: h % k


@thread("EleutherAI/gpt-neox#1315", "weight.order.per_head weight.order weight.order.per_group", "neox-sequential", "everything modules")
def fused_rows_split_in_three(port):
    split_in_three(port)


@thread("EricLBuehler/candle-vllm#167", "bias.missing bias.missing.q bias.missing.k bias.missing.v", "qwen2", "states modules logits")
def bias_off_by_default(port):
    for _, b in each(port):
        for part in (b.attention.q, b.attention.k, b.attention.v):
            part.bias = 0.0


# Rotary ----------------------------------------------------------------------------------------------

@thread("huggingface/transformers#25199", "rope.style rope.pairs weight.rows", "llama3.2", "states everything transformer_lens")
def pairs_of_the_release(port):
    for _, b in each(port):
        b.attention.rope = copy.copy(b.attention.rope)
        b.attention.rope.adjacent = True


@thread("lyogavin/airllm#368", "rope.base rope.frequencies rope.scaling.missing rope.scaling.kind", "qwen3-untied", "mlx states everything")
def base_of_llama_2(port):
    for _, b in each(port):
        count = len(np.asarray(b.attention.rope.frequencies))
        frequencies(b, lambda f: 10000.0 ** (-np.arange(count) / count))


@thread("NVIDIA/TensorRT-LLM#4815", "rope.scaling.missing", "gemma3-rope-parameters", "states everything", layers=[0, 3])
def scaling_of_the_small_model(port):
    for _, b in each(port, [0, 3]):
        frequencies(b, lambda f: f * 4)


@thread("keras-team/keras-hub#1544", "rope.positions rope.offset", "mistral", "everything", says="(?i)(token|query|position)")
def start_index_ignored(port):
    for n, _ in each(port):
        port.of[n]["turn"] = lambda r, y, p, which: r(y, np.where(p < 7, p, p - 7))


@thread("Comfy-Org/ComfyUI#15698", "rope.positions rope.offset", "llama3.2", "everything", says="(?i)(token|query|position)")
def decoded_by_the_padded_width(port):
    for n, _ in each(port):
        port.of[n]["turn"] = lambda r, y, p, which: r(y, np.where(p < 6, p, p + 3))


@thread("mlx-node/mlx-node#33", "rope.positions rope.offset", "qwen3-untied", "everything", says="(?i)(token|query|position)")
def second_chunk_twice_as_far(port):
    for n, _ in each(port):
        port.of[n]["turn"] = lambda r, y, p, which: r(y, np.where(p < 5, p, p + 5))


@thread("ml-explore/mlx-examples#97", "rope.style rope.pairs", "neox-parallel", "states everything modules")
def traditional_pairs(port):
    for _, b in each(port):
        b.attention.rope = copy.copy(b.attention.rope)
        b.attention.rope.adjacent = True


@thread("vllm-project/vllm#51049", "rope.missing rope.missing.q rope.missing.k", "neox-parallel", "everything states")
def partial_rotation_skipped(port):
    for n, _ in each(port):
        port.of[n]["turn"] = lambda r, y, p, which: y


@thread("sgl-project/sglang#30050", "rope.attention_factor", "qwen2.5-yarn", "everything states")
def mscale_outside_the_kernel(port):
    for _, b in each(port):
        b.attention.rope = copy.copy(b.attention.rope)
        b.attention.rope.factor = 1.0


@thread("keras-team/keras-hub#1544", "rope.rounded precision.bf16", "llama2-gqa", "modules everything")
def positions_in_bfloat16(port):
    def turn(r, y, p, which):
        angle = to_bfloat16(to_bfloat16(p)[:, None] * to_bfloat16(np.asarray(r.frequencies)))
        cos, sin = to_bfloat16(np.cos(angle)), to_bfloat16(np.sin(angle))
        a, c = np.split(y, 2, -1)
        return np.concatenate([a * cos - c * sin, a * sin + c * cos], -1)
    for n, _ in each(port):
        port.of[n]["turn"] = turn


# Feed-forward, blocks, ends --------------------------------------------------------------------------

@thread("Blaizzy/mlx-embeddings#81", "mlp.activation", "bert", "modules states")
def tanh_gelu_in_bert(port):
    for n, _ in each(port):
        port.of[n]["act"] = ACTIVATIONS["gelu_new"]


@thread("NVIDIA-NeMo/Megatron-Bridge#4661", "mlp.activation", "gemma", "states modules logits")
def exact_gelu_in_gemma(port):
    for n, _ in each(port):
        port.of[n]["act"] = ACTIVATIONS["gelu"]


@thread("microsoft/onnxruntime#2270", "mlp.activation", "gpt2", "states modules logits")
def exact_gelu_in_gpt2(port):
    for n, _ in each(port):
        port.of[n]["act"] = ACTIVATIONS["gelu"]


@thread("keras-team/keras-hub#1056", "block.sequential", "neox-parallel", "states modules")
def residual_never_parallel(port):
    for n, _ in each(port):
        port.of[n]["shape"] = "pre"


@thread("pegainfer-project/pegainfer#544", "head.tied", "qwen3-untied", "states_and_logits logits vllm", ends=True)
def embedding_for_the_head(port):
    port.model.head.decoder.weight = port.words.T


@thread("TransformerLensOrg/TransformerLens#650", "softcap.missing", "gemma2", "transformer_lens states")
def scores_not_capped(port):
    for _, b in each(port):
        b.attention.softcap = None


@thread("AlignmentResearch/tuned-lens#1", "", "gpt2", "own", says="it is resid_pre here")
def states_one_layer_off(port):
    port.run(port.text)
    return {f"transformer.h.{n}": port.s[f"layers.{n - 1}.resid_post"] if n else port.s["embed"] for n in range(len(port.blocks))}


@thread("Lightning-AI/lit-llama#14", "rope.rounded precision.f16", "llama2-gqa", "modules everything")
def rotation_in_half(port):
    half = lambda y: np.float64(np.float16(y))
    def turn(r, y, p, which):
        angle = p[:, None] * np.asarray(r.frequencies)
        cos, sin = half(np.cos(angle)), half(np.sin(angle))
        a, c = np.split(y, 2, -1)
        return np.concatenate([a * cos - c * sin, a * sin + c * cos], -1)
    for n, _ in each(port):
        port.of[n]["turn"] = turn


if __name__ == "__main__":
    sys.exit(main())
