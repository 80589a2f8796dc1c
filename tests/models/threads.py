#!/usr/bin/env python3
"""Wrong ports from public threads, one a row: what was computed there, under the names of the tool that computed it.

    /usr/bin/python3 tests/models/threads.py PROGRAM MODELS [--only WORD] [--show] [--keep FOLDER] [-j N]

MODELS is a folder that make.py wrote. thread_ports.py runs and judges them. Exit code 1 where fewer than nine of ten are named.
"""
import copy
import sys

import numpy as np

from forward import ACTIVATIONS, Rope, sigmoid
from mistakes import to_bfloat16
from thread_ports import each, frequencies, main, split_in_three, thread
from unseen import altered, stream_of_before


# Norms -----------------------------------------------------------------------------------------------

@thread("huggingface/candle#271", "input_norm.eps block_norm.eps last_norm.form", "bard-llama", "modules states", ends=True)
def eps_of_other_default(port):
    for _, b in each(port):
        b.n1, b.n2 = (copy.copy(n) for n in (b.n1, b.n2))
        b.n1.eps = b.n2.eps = 1e-6
    port.at["norm"] = copy.copy(port.model.final)
    port.at["norm"].eps = 1e-6


@thread("huggingface/transformers#38025", "last_norm.form", "bard-llama", "states logits", ends=True)
def eps_not_passed_to_last_norm(port):
    port.at["norm"] = copy.copy(port.model.final)
    port.at["norm"].eps = 1e-6


@thread("huggingface/transformers#48762", "norm.eps", "qwen3-untied", "modules everything", precision="f64")
def eps_not_passed_to_qk_norms(port):
    for _, b in each(port):
        for norm in (b.attention.q_norm, b.attention.k_norm):
            norm.eps = 1e-3


@thread("unslothai/unsloth-zoo#1095", "input_norm.one_plus block_norm.one_plus last_norm.form norm.one_plus", "gemma2", "llama_cpp", ends=True)
def one_added_twice(port):
    for _, b in each(port):
        b.n1, b.n2, b.n3, b.n4 = (altered(n, "one_plus") for n in (b.n1, b.n2, b.n3, b.n4))
    port.at["norm"] = altered(port.model.final, "one_plus")


@thread("ggml-org/llama.cpp#1925", "input_norm.twice block_norm.twice", "llama2-gqa", "llama_cpp states")
def norm_applied_twice(port):
    for _, b in each(port):
        b.n1 = altered(b.n1, "twice")


@thread("nntile/nntile#358", "input_norm.kind block_norm.kind last_norm.form", "gpt2", "modules states", ends=True)
def rms_for_layer(port):
    for _, b in each(port):
        b.n1, b.n2 = altered(b.n1, "kind"), altered(b.n2, "kind")
    port.at["norm"] = altered(port.model.final, "kind")


@thread("GeeeekExplorer/nano-vllm#170", "block.residual.normalised", "qwen3-untied", "vllm states", layers=[0])
def residual_normalised_in_place(port):
    def run(b, t, x, A, F):
        bare = altered(b.n1, "bare")(x)
        r = t("residual", bare + A(b.n1(x)))
        return r + F(b.n2(r))
    port.of[0]["shape"] = run


@thread("lucidrains/x-transformers#352", "norm.weight", "qwen3-untied", "modules everything states")
def qk_norms_without_weights(port):
    for _, b in each(port):
        b.attention.q_norm, b.attention.k_norm = (altered(n, "bare") for n in (b.attention.q_norm, b.attention.k_norm))


@thread("sgl-project/sglang#27540", "precision.bf16 block_norm.rounded input_norm.rounded", "gemma2", "modules")
def norms_rounded(port):
    for _, b in each(port):
        for slot in ("n1", "n2", "n3", "n4"):
            norm = getattr(b, slot)
            setattr(b, slot, lambda x, norm=norm: to_bfloat16(norm(x)))


@thread("meta-pytorch/torchtune#2809", "norm.after_rope", "qwen3-untied", "everything states modules")
def norm_behind_rope(port):
    for n, _ in each(port):
        port.of[n]["norm_late"] = True


@thread("paiml/aprender#1228", "norm.missing", "qwen3-untied", "modules states vllm")
def no_qk_norm(port):
    for _, b in each(port):
        b.attention.q_norm = b.attention.k_norm = None


# Scale and caps --------------------------------------------------------------------------------------

@thread("ggml-org/llama.cpp#8444", "scale.constant scale.d_model", "gemma2", "llama_cpp states")
def scale_by_width_over_heads(port):
    for _, b in each(port):
        b.attention.scale = (port.words.shape[1] / b.attention.num_heads) ** -0.5


@thread("antonellof/ferrox#40", "scale.d_k scale.constant", "gemma2", "llama_cpp everything states")
def scale_by_head(port):
    for _, b in each(port):
        b.attention.scale = 16 ** -0.5


@thread("InternLM/lmdeploy#2761", "scale.constant", "mistral-nemo", "vllm states", precision="f32")
def scale_of_derived_head(port):
    for _, b in each(port):
        b.attention.scale = (port.words.shape[1] / b.attention.num_heads) ** -0.5


@thread("FrancescoSaverioZuppichini/ViT#1", "scale.d_model", "gpt2", "modules states logits")
def scale_by_width(port):
    for _, b in each(port):
        b.attention.scale = port.words.shape[1] ** -0.5


@thread("vllm-project/vllm-metal#665", "softcap.missing", "gemma2", "vllm states")
def no_cap(port):
    for _, b in each(port):
        b.attention.softcap = None


@thread("unslothai/unsloth-zoo#593", "head.softcap", "gemma2", "states_and_logits logits", ends=True)
def cap_multiplies_logits(port):
    cap = port.model.head.softcap
    port.model.head.softcap = None
    port.at["logits"] = lambda y: y * np.tanh(y / cap)


@thread("NVIDIA-NeMo/Megatron-Bridge#4645", "head.softcap", "gemma2", "states_and_logits logits", ends=True)
def no_final_cap(port):
    port.model.head.softcap = None


@thread("NVIDIA-NeMo/Megatron-Bridge#4645", "head.softcap", "gemma2", "states_and_logits logits", ends=True)
def final_cap_twice(port):
    cap = port.model.head.softcap
    port.at["logits"] = lambda y: cap * np.tanh(y / cap)


# Rotary ----------------------------------------------------------------------------------------------

@thread("NVIDIA/TensorRT-LLM#4040", "rope.twice rope.scaling.added rope.positions", "qwen3-untied", "everything states")
def turned_twice(port):
    for n, _ in each(port):
        port.of[n]["turn"] = lambda r, y, p, which: r(r(y, p), p)


@thread("timtoole02/Camelid#266", "rope.style", "qwen3-untied", "llama_cpp states everything")
def neighbours_turned(port):
    for _, b in each(port):
        b.attention.rope = copy.copy(b.attention.rope)
        b.attention.rope.adjacent = True


@thread("lablup/mlxcel#1340", "rope.scaling.missing", "gemma3-rope-parameters", "modules states everything", layers=[0, 3])
def linear_scaling_never_read(port):
    for _, b in each(port, [0, 3]):
        frequencies(b, lambda f: f * 4)


@thread("antonellof/ferrox#39", "rope.scaling.added rope.layers block.settings.other", "gemma3-rope-parameters", "modules states", layers=[1, 2])
def scaling_on_local_layers(port):
    for _, b in each(port, [1, 2]):
        frequencies(b, lambda f: f / 4)


@thread("ggml-org/llama.cpp#14367", "rope.base rope.scaling.added rope.layers block.settings.other rope.frequencies", "gemma3-rope-parameters",
        "modules states", layers=[1, 2])
def global_rope_everywhere(port):
    rope = port.blocks[0].attention.rope
    for _, b in each(port, [1, 2]):
        b.attention.rope = rope


@thread("jmaczan/tiny-vllm#1", "rope.scaling.missing", "llama3.1", "states modules everything")
def no_llama3_scaling(port):
    for _, b in each(port):
        frequencies(b, lambda f: 500000.0 ** (-np.arange(len(f)) / len(f)))


@thread("TransformerLensOrg/TransformerLens#910", "rope.scaling.kind rope.scaling.factor rope.scaling.missing", "llama3.1",
        "transformer_lens states")
def other_llama3_factor(port):
    def scaled(f, factor=32.0, length=64):
        plain = 500000.0 ** (-np.arange(len(f)) / len(f))
        turns = length * plain / (2 * np.pi)
        blend = np.clip((turns - 1) / 3, 0, 1)
        return plain * (blend + (1 - blend) / factor)
    for _, b in each(port):
        frequencies(b, scaled)


@thread("huggingface/candle#3698", "rope.rounded precision.bf16", "qwen2-window", "modules everything")
def table_in_bfloat16(port):
    def turn(r, y, p, which):
        theta = to_bfloat16(np.asarray(r.frequencies))
        angle = to_bfloat16(p[:, None] * theta)
        cos, sin = to_bfloat16(np.cos(angle)), to_bfloat16(np.sin(angle))
        a, c = np.split(y, 2, -1)
        return np.concatenate([a * cos - c * sin, a * sin + c * cos], -1)
    for n, _ in each(port):
        port.of[n]["turn"] = turn


@thread("ml-explore/mlx-lm#1698", "rope.dims rope.frequencies", "neox-parallel", "modules states everything")
def whole_head_turned(port):
    for _, b in each(port):
        d = b.attention.q.weight.shape[1] // b.attention.num_heads
        b.attention.rope = Rope(10000.0 ** (-np.arange(0, d, 2) / d))


@thread("pie-project/pie#603", "rope.dims rope.frequencies rope.pairs", "neox-parallel", "everything states")
def pairs_over_the_head_width(port):
    def turn(r, y, p, which):
        d, n = y.shape[-1], len(r.frequencies)
        theta = 10000.0 ** (-2 * np.arange(n) / d)
        out, angle = y.copy(), p[:, None] * theta
        a, c = y[..., :n], y[..., d // 2:d // 2 + n]
        out[..., :n], out[..., d // 2:d // 2 + n] = a * np.cos(angle) - c * np.sin(angle), a * np.sin(angle) + c * np.cos(angle)
        return out
    for n, _ in each(port):
        port.of[n]["turn"] = turn


@thread("labscommunity/cascadia#69", "rope.dims rope.pairs rope.frequencies", "neox-parallel", "everything states modules")
def rotated_over_half_a_head(port):
    def turn(r, y, p, which):
        d, n = y.shape[-1], len(r.frequencies)
        out, angle = y.copy(), p[:, None] * np.asarray(r.frequencies)
        a, c = y[..., :n], y[..., d // 2:d // 2 + n]
        out[..., :n], out[..., d // 2:d // 2 + n] = a * np.cos(angle) - c * np.sin(angle), a * np.sin(angle) + c * np.cos(angle)
        return out
    for n, _ in each(port):
        port.of[n]["turn"] = turn


@thread("sgl-project/sglang#33558", "rope.attention_factor", "qwen3-yarn", "everything states")
def attention_factor_squared(port):
    for _, b in each(port):
        b.attention.rope = copy.copy(b.attention.rope)
        b.attention.rope.factor **= 2


@thread("turboderp-org/exllamav3#259", "rope.attention_factor", "qwen2.5-yarn", "states everything")
def attention_factor_lost(port):
    for _, b in each(port):
        b.attention.rope = copy.copy(b.attention.rope)
        b.attention.rope.factor = 1.0


@thread("sgl-project/sglang#22711", "rope.attention_factor", "llama-yarn-mscale", "sglang states everything")
def mscale_not_read(port):
    for _, b in each(port):
        b.attention.rope = copy.copy(b.attention.rope)
        b.attention.rope.factor = 0.1 * np.log(40) + 1


@thread("vllm-project/vllm#46280", "rope.attention_factor", "qwen3-yarn", "vllm states everything")
def attention_factor_not_forwarded(port):
    for _, b in each(port):
        b.attention.rope = copy.copy(b.attention.rope)
        b.attention.rope.factor = 0.1 * np.log(32) + 1


@thread("ggml-org/llama.cpp#24823", "rope.scaling.length", "phi3-su", "llama_cpp states everything")
def long_factors_for_short_texts(port):
    long = np.array([1.08, 1.11, 1.14, 4.34, 21.5, 64.3])
    short = np.array([1.0, 1.05, 1.1, 1.25, 1.4, 1.5])
    for _, b in each(port):
        rope = b.attention.rope = copy.copy(b.attention.rope)
        theta = rope.frequencies(1) if callable(rope.frequencies) else np.asarray(rope.frequencies)
        rope.frequencies = theta * short / long


@thread("NVIDIA/TensorRT-Model-Connect#400", "rope.scaling.missing", "qwen3-yarn", "states everything")
def yarn_skipped(port):
    for _, b in each(port):
        d = 16
        b.attention.rope = Rope(1e6 ** (-np.arange(0, d, 2) / d))


@thread("kvcache-ai/ktransformers#1959", "rope.missing.q rope.missing.k rope.missing", "qwen3-untied", "everything states")
def rotation_not_written_back(port):
    for n, _ in each(port):
        port.of[n]["turn"] = lambda r, y, p, which: y if which == "q" else r(y, p)


@thread("gittensor-ai-lab/sparkinfer#518", "rope.dims rope.rest", "neox-parallel", "everything states", says="dimensions 6–23 of each head, where the reference has 0")
def rest_of_the_head_not_written(port):
    def turn(r, y, p, which):
        out = r(y, p)
        if which == "q":
            out[..., 2 * len(r.frequencies):] = 0
        return out
    for n, _ in each(port):
        port.of[n]["turn"] = turn


@thread("nntrainer/nntrainer#3982", "rope.style rope.added", "bert", "modules states everything")
def rotary_in_bert(port):
    for _, b in each(port):
        d = b.attention.q.weight.shape[1] // b.attention.num_heads
        b.attention.rope = Rope(10000.0 ** (-np.arange(0, d - d % 2, 2) / d))


@thread("nntrainer/nntrainer#3982", "", "bert", "modules states everything", says="(?i)nan")
def not_a_number_behind_attention(port):
    for n, _ in each(port):
        port.blocks[n].attention.rope = Rope(np.full(2, np.nan))


@thread("fla-org/flash-linear-attention#766", "rope.offset rope.positions", "llama3.2", "everything", layers=[1, 2, 3])
def upper_layers_one_ahead(port):
    """The last token alone was decoded with a cache."""
    for n, _ in each(port, [1, 2, 3]):
        port.of[n]["turn"] = lambda r, y, p, which: r(y, p + (p == p.max()))


@thread("Blaizzy/mlx-vlm#1983", "rope.positions rope.offset", "qwen3-untied", "everything mlx", says="(?i)(token|query|position)")
def decoded_at_position_zero(port):
    """Five tokens of the prompt, the rest one by one."""
    for n, _ in each(port):
        port.of[n]["turn"] = lambda r, y, p, which: r(y, np.where(p < 5, p, 0))


@thread("microsoft/onnxruntime-genai#2354", "rope.positions rope.offset", "llama2-gqa", "everything", says="(?i)(token|query|position)")
def decoded_one_too_far(port):
    for n, _ in each(port):
        port.of[n]["turn"] = lambda r, y, p, which: r(y, p + (p >= 5))


# Heads, masks, windows -------------------------------------------------------------------------------

@thread("ekzhang/jax-js#180", "gqa.tiled", "llama2-gqa", "everything states")
def kv_heads_tiled(port):
    for n, b in each(port):
        port.of[n]["reads"] = lambda h, k=b.attention.num_kv_heads: h % k


@thread("PSAL-POSTECH/ONNXim#34", "gqa.first gqa.map", "gpt2", "everything states")
def all_heads_read_the_first(port):
    for n, _ in each(port):
        port.of[n]["reads"] = lambda h: 0


@thread("FlashML-org/FreeToken#177", "gqa.map", "mistral-nemo", "everything vllm", says="(?i)heads? ")
def tile_crosses_the_group(port):
    """Tiles of two heads: the head behind a group's last whole tile reads the group's before it."""
    for n, _ in each(port):
        port.of[n]["reads"] = lambda h: [0, 0, 0, 0, 1, 1][h]


@thread("lablup/mlxcel#1001", "causal.missing", "gemma2", "modules states mlx")
def prefill_sees_all(port):
    for n, _ in each(port):
        port.of[n]["see"] = lambda i, j: j >= 0


@thread("osaurus-ai/vmlx-swift#185", "causal.missing", "llama3.2", "numbered_states logits")
def nil_is_no_mask(port):
    for n, _ in each(port):
        port.of[n]["see"] = lambda i, j: j >= 0


@thread("vllm-project/vllm#21863", "window.added window.length window.layers block.settings.other", "gemma3-layer-types", "vllm states everything", layers=[0, 3])
def window_on_every_layer(port):
    for _, b in each(port, [0, 3]):
        b.attention.window = 5


@thread("Blaizzy/mlx-vlm#669", "window.missing", "gemma3-layer-types", "mlx states", layers=[1, 2])
def windows_forgotten(port):
    for _, b in each(port):
        b.attention.window = None


@thread("Lightning-AI/litgpt#1972", "window.missing window.added window.length window.layers block.settings.other", "gemma3-layer-types", "states everything",
        layers=[0, 2])
def windows_one_layer_off(port):
    windows = [b.attention.window for b in port.blocks]
    for n, b in each(port):
        b.attention.window = windows[(n + 1) % len(windows)]


@thread("quic/efficient-transformers#1250", "window.plus_one window.minus_one window.length", "gemma2", "everything states")
def window_from_the_next_position(port):
    for _, b in each(port):
        if b.attention.window:
            b.attention.window -= 1


@thread("tenstorrent/tt-metal#54413", "", "llama2-gqa", "everything", says="(?i)(zero|keys? \\d|key/value head)")
def cache_left_empty(port):
    """Keys and values of two positions of one head were never written."""
    def turn(r, y, p, which):
        out = r(y, p)
        if which == "k":
            out[1, 4:6] = 0
        return out
    for n, _ in each(port):
        port.of[n]["turn"] = turn


# Weights and biases ----------------------------------------------------------------------------------

@thread("sbryngelson/ANEForge#253", "bias.missing bias.missing.q bias.missing.k bias.missing.v", "qwen2-window", "modules states logits")
def attention_biases_dropped(port):
    for _, b in each(port):
        for part in (b.attention.q, b.attention.k, b.attention.v):
            part.bias = 0.0


@thread("paiml/aprender#1090", "bias.times", "qwen2-window", "modules everything", says="(?i)bias")
def biases_ten_times(port):
    for _, b in each(port):
        for part in (b.attention.q, b.attention.k, b.attention.v):
            part.bias = part.bias * 10


@thread("nntile/nntile#370", "mlp.bias.missing", "gpt2", "modules states")
def feed_forward_biases_dropped(port):
    for _, b in each(port):
        b.feed_forward.pre.bias = b.feed_forward.out.bias = 0.0


@thread("nntile/nntile#402", "mlp.transposed", "gpt2", "modules everything")
def feed_forward_read_as_out_in(port):
    for _, b in each(port):
        for part in (b.feed_forward.pre, b.feed_forward.out):
            i, o = part.weight.shape
            part.weight = part.weight.reshape(o, i).T


@thread("lablup/mlxcel#928", "weight.order.per_head weight.order", "neox-parallel", "modules everything states", says="")
def fused_rows_split_flat(port):
    split_in_three(port)


# Feed-forward and blocks -----------------------------------------------------------------------------

@thread("huggingface/candle#3745", "mlp.activation", "gemma3-layer-types", "modules states logits")
def silu_for_gelu(port):
    for n, _ in each(port):
        port.of[n]["act"] = ACTIVATIONS["silu"]


@thread("TransformerLensOrg/TransformerLens#596", "mlp.activation", "gemma", "transformer_lens states")
def exact_gelu(port):
    for n, _ in each(port):
        port.of[n]["act"] = ACTIVATIONS["gelu"]


@thread("ml-explore/mlx-lm#767", "mlp.activated_other mlp.swapped", "llama3.2", "mlx states logits")
def other_factor_activated(port):
    for n, _ in each(port):
        port.of[n]["product"] = lambda act, g, u: g * act(u)


@thread("Nijikadesu/breakdown-minimind#3", "mlp.activated_other mlp.activation", "llama2-gqa", "modules states")
def product_activated(port):
    for n, _ in each(port):
        port.of[n]["product"] = lambda act, g, u: act(g * u)


@thread("google-research/timesfm#493", "mlp.gate.missing", "llama2-gqa", "states modules")
def no_gate(port):
    for n, _ in each(port):
        port.of[n]["product"] = lambda act, g, u: act(g)


@thread("bkitano/llama-from-scratch#7", "mlp.activation", "llama2-gqa", "modules states")
def swish_of_another_beta(port):
    for n, _ in each(port):
        port.of[n]["act"] = lambda x: x * sigmoid(1.5 * x)


@thread("mlverse/minhub#1", "block.parallel", "gpt2", "modules states logits")
def attention_beside_feed_forward(port):
    for n, _ in each(port):
        port.of[n]["shape"] = "parallel"


@thread("elixir-nx/bumblebee#204", "block.sequential", "neox-parallel", "modules states")
def one_behind_the_other(port):
    for n, _ in each(port):
        port.of[n]["shape"] = "pre"


@thread("paiml/aprender#1675", "block_norm.place", "bert", "modules states")
def pre_norm_for_bert(port):
    for n, _ in each(port):
        port.of[n]["shape"] = "pre"


@thread("vllm-project/vllm#12099", "block.residual.original", "llama3.2", "vllm states")
def residual_of_the_layer_input(port):
    for n, _ in each(port):
        port.of[n]["shape"] = stream_of_before


# Embedding -------------------------------------------------------------------------------------------

@thread("sbryngelson/ANEForge#257", "embed.positions.offset", "roberta", "states modules", ends=True)
def positions_from_0(port):
    port.at["places"] = lambda t, p: t[p - 2]


@thread("ggml-org/llama.cpp#8658", "embed.positions.offset", "roberta", "states", ends=True)
def table_shifted_twice(port):
    port.at["places"] = lambda t, p: t[p + 2]


@thread("huggingface/setfit#338", "embed.types", "bert", "states modules", ends=True)
def mask_given_as_types(port):
    port.at["types"] = lambda t: t[1]


@thread("TensorAuto/OpenTau#179", "embed.scale", "gemma3-layer-types", "states everything", ends=True)
def rows_scaled_twice(port):
    port.at["factor"] = port.factor ** 2


@thread("marin-community/levanter#978", "embed.scale", "gemma", "states logits", ends=True)
def rows_not_scaled(port):
    port.at["factor"] = 1.0


@thread("huggingface/transformers#37109", "embed.scale", "gemma2-bf16", "states everything", ends=True)
def scale_not_rounded(port):
    port.at["factor"] = float(port.words.shape[1]) ** 0.5


# Ends ------------------------------------------------------------------------------------------------

@thread("vllm-project/speculators#313", "head.norm.missing last_norm.missing", "llama3.2", "states_and_logits logits", ends=True)
def head_of_the_stream(port):
    port.at["no_norm"] = True


@thread("TransformerLensOrg/TransformerLens#693", "head.centred", "llama3.2", "states_and_logits logits", ends=True, says="(?i)(each row|constant|softmax)")
def unembedding_centred(port):
    port.at["logits"] = lambda y: y - y.mean(-1, keepdims=True)


# Captures that are none, and batches: what was saved is what `plant` returns -----------------------------

@thread("vllm-project/vllm#33167", "", "qwen3-untied", "own", says="(?i)before the last norm here", ends=True)
def last_state_before_the_norm(port):
    port.run(port.text)
    states = [port.s[f"layers.{n}.resid_pre"] for n in range(4)] + [port.s["layers.3.resid_post"]]
    return {"hidden_states": np.stack(states)[:, None], "logits": port.s["logits"]}


@thread("ndif-team/nnsight#630", "", "qwen3-untied", "own", says="(?i)it is mlp_out here")
def layer_output_is_the_feed_forwards(port):
    port.run(port.text)
    return {f"model.layers.{n}.output": port.s[f"layers.{n}.mlp_out"] for n in range(4)} | \
        {f"model.layers.{n}.self_attn.output": port.s[f"layers.{n}.output"] for n in range(4)}


@thread("InfiniTensor/InfiniLM#388", "", "llama3.2", "own", says="its text begins with token")
def doubled_first_token(port):
    port.run([port.text[0]] + port.text)
    return {"input_ids": np.array([[port.text[0]] + port.text]), "hidden_states": np.stack(port.states)[:, None], "logits": port.s["logits"]}


@thread("TransformerLensOrg/TransformerLens#369", "", "llama3.2", "own", says="its text begins with token")
def doubled_first_token_untold(port):
    port.run([port.text[0]] + port.text)
    return {f"blocks.{n}.hook_resid_pre": port.s[f"layers.{n}.resid_pre"] for n in range(4)} | {"ln_final.hook_normalized": port.s["final"]}


@thread("ndif-team/nnsight#673", "embed.positions.offset", "gpt2", "own", ends=True, says="(?i)padding")
def positions_through_the_padding(port):
    port.run(port.text, padding=3, through=True)
    return {"input_ids": np.array([[0] * 3 + port.text]), "attention_mask": np.array([[0] * 3 + [1] * len(port.text)]),
            "hidden_states": np.stack(port.states)[:, None], "logits": port.s["logits"][None]}


@thread("unslothai/unsloth#3699", "rope.padding rope.offset", "qwen2-window", "own", says="(?i)padding")
def rotary_through_the_padding(port):
    port.run(port.text, padding=3, through=True)
    out = {"input_ids": np.array([[0] * 3 + port.text]), "attention_mask": np.array([[0] * 3 + [1] * len(port.text)])}
    return out | {f"layers.{n}.{s}": port.s[f"layers.{n}.{s}"][None] for n in range(4) for s in ("q_rope", "k_rope", "output", "resid_post")}


@thread("huggingface/transformers#2860", "mask.missing padding.attended mask.padding", "bert", "own", says="(?i)padding")
def padding_attended(port):
    port.run(port.text + [0, 0])
    return {"input_ids": np.array([port.text + [0, 0]]), "attention_mask": np.array([[1] * len(port.text) + [0, 0]]),
            "hidden_states": np.stack(port.states)[:, None]}


@thread("TransformerLensOrg/TransformerLens#385", "", "llama3.2", "own", says="x without the norm.s weight, which is folded")
def norms_folded(port):
    """from_pretrained folds weights of norms into the projections: hook_normalized is without them."""
    port.run(port.text)
    out = {}
    for n, b in each(port):
        out[f"blocks.{n}.hook_resid_pre"] = port.s[f"layers.{n}.resid_pre"]
        out[f"blocks.{n}.ln1.hook_normalized"] = port.s[f"layers.{n}.x"] / b.n1.weight
        out[f"blocks.{n}.ln2.hook_normalized"] = port.s[f"layers.{n}.mlp_x"] / b.n2.weight
        for s in "qkv":
            out[f"blocks.{n}.attn.hook_{s}"] = port.s[f"layers.{n}.{s}"].transpose(1, 0, 2)
        out[f"blocks.{n}.hook_resid_post"] = port.s[f"layers.{n}.resid_post"]
    return out


@thread("TransformerLensOrg/TransformerLens#385", "", "gpt2", "own", says="resid_post without each row.s mean")
def stream_centred(port):
    """from_pretrained centres what writes to the stream: every norm takes the mean away anyway."""
    port.run(port.text)
    return {f"blocks.{n}.hook_resid_{at}": (lambda x: x - x.mean(-1, keepdims=True))(port.s[f"layers.{n}.resid_{at}"])
            for n in range(len(port.blocks)) for at in ("pre", "post")} | \
        {"ln_final.hook_normalized": port.s["final"], "logits": port.s["logits"]}


if __name__ == "__main__":
    sys.exit(main())
