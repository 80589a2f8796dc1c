"""One record per family: the config as it is published (in small), the tensors of a checkpoint
with their names and shapes in the file, and how the model is computed from them.

`tensors(config)` is a dict of name -> Tensor; `model(config, weights)` a forward.Model. The names
are complete; that a base model saved alone lacks the first part is for `Weights.under` to see.
"""
from dataclasses import dataclass
from typing import Callable, NamedTuple

import numpy as np

from forward import ACTIVATIONS, Attention, Block, FeedForward, Head, Linear, Model, Norm, Rope, identity
from safetensors import rounded


class Tensor(NamedTuple):
    shape: tuple
    kind: str      # matrix, embedding, position, gain (around 1), offset (around 0: gain - 1), bias, small bias
    inputs: int = 0  # of a matrix: the length of the sums that it makes


def linear(out, in_, bias=True, name=""):
    """torch.nn.Linear: y = x Wᵀ + b."""
    return {f"{name}.weight": Tensor((out, in_), "matrix", in_)} | \
           ({f"{name}.bias": Tensor((out,), "bias")} if bias else {})


def conv1d(in_, out, name):
    """GPT-2's own: y = x W + b."""
    return {f"{name}.weight": Tensor((in_, out), "matrix", in_), f"{name}.bias": Tensor((out,), "bias")}


def layer_norm(d, name, bias=True):
    return {f"{name}.weight": Tensor((d,), "gain")} | ({f"{name}.bias": Tensor((d,), "bias")} if bias else {})


class Weights:
    """The numbers of a file by name."""

    def __init__(self, tensors):
        self.tensors = tensors  # name -> (dtype, array)

    def under(self, *prefixes):
        """What stands below the first of the prefixes that the file has; all of it if none."""
        for prefix in prefixes:
            inside = {n[len(prefix):]: t for n, t in self.tensors.items() if n.startswith(prefix)}
            if inside:
                return Weights(inside)
        return self

    def __contains__(self, name):
        return name in self.tensors

    def __getitem__(self, name):
        return self.tensors[name][1]

    def get(self, name, default=0.0):
        return self[name] if name in self else default

    def dtype(self, name):
        return self.tensors[name][0]

    def linear(self, name):
        return Linear(self[f"{name}.weight"].T, self.get(f"{name}.bias"))

    def rows(self, name, *counts):
        """A fused Linear cut into the given numbers of rows."""
        ends = np.cumsum(counts)
        return [Linear(self[f"{name}.weight"][e - n:e].T, self.get(f"{name}.bias", np.zeros(ends[-1]))[e - n:e])
                for n, e in zip(counts, ends)]

    def conv1d(self, name):
        return Linear(self[f"{name}.weight"], self[f"{name}.bias"])

    def layer_norm(self, name, eps):
        return Norm("layer", eps, self[f"{name}.weight"], self.get(f"{name}.bias"))


def frequencies(n, base):
    """of rotary embedding on n dimensions: base^(-2i/n)"""
    return float(base) ** (-np.arange(0, n, 2) / n)


def scaled_frequencies(theta, scaling):
    """theta as rope_scaling changes it: linear, or Llama 3.1's three bands of wavelengths. The kinds that depend on
    the config or the length are scaled_rope's."""
    kind = (scaling or {}).get("rope_type", (scaling or {}).get("type", "default"))
    if kind == "default":
        return theta
    if kind == "linear":
        return theta / scaling["factor"]
    assert kind == "llama3", kind
    turns = scaling["original_max_position_embeddings"] * theta / (2 * np.pi)  # in the length trained on
    low, high = scaling["low_freq_factor"], scaling["high_freq_factor"]
    kept = np.clip((turns - low) / (high - low), 0, 1)  # fast ones stay, slow ones are stretched
    return theta * (kept + (1 - kept) / scaling["factor"])


def yarn_frequencies(theta, base, scaling, original):
    """NTK by parts (Peng et al. 2023): pairs that turn often stay, those that turn rarely are stretched."""
    n, s = 2 * len(theta), scaling["factor"]
    pair = lambda turns: n * np.log(original / (turns * 2 * np.pi)) / (2 * np.log(base))
    low, high = pair(scaling.get("beta_fast") or 32), pair(scaling.get("beta_slow") or 1)
    if scaling.get("truncate", True):
        low, high = np.floor(low), np.ceil(high)
    low, high = max(low, 0), min(high, n - 1)
    share = np.clip((np.arange(len(theta)) - low) / (high - low or 0.001), 0, 1)
    return theta / s * share + theta * (1 - share)


def yarn_factor(scaling):
    given, s = scaling.get("attention_factor"), scaling["factor"]
    g = lambda m: 0.1 * m * np.log(s) + 1 if s > 1 else 1.0
    if given is not None:
        return given
    if scaling.get("mscale") and scaling.get("mscale_all_dim"):
        return g(scaling["mscale"]) / g(scaling["mscale_all_dim"])
    return g(1)


def scaled_rope(c, dims, base, scaling):
    """The rotation as config.json describes it."""
    kind = (scaling or {}).get("rope_type", (scaling or {}).get("type", "default"))
    theta, longest = frequencies(dims, base), c["max_position_embeddings"]
    if kind == "dynamic":
        s = scaling["factor"]
        stretch = lambda L: (s * max(L, longest) / longest - (s - 1)) ** (dims / (dims - 2))
        return Rope(lambda L: frequencies(dims, base * stretch(L)))
    if kind == "yarn":
        original = scaling.get("original_max_position_embeddings", longest)
        return Rope(yarn_frequencies(theta, base, scaling, original), factor=yarn_factor(scaling))
    if kind in ("longrope", "su"):
        original = c["original_max_position_embeddings"]
        divisors = {x: np.array(scaling[f"{x}_factor"], float) for x in ("short", "long")}
        s = longest / original
        a = scaling.get("attention_factor") or (np.sqrt(1 + np.log(s) / np.log(original)) if s > 1 else 1.0)
        return Rope(lambda L: theta / divisors["long" if L > original else "short"], factor=a)
    return Rope(scaled_frequencies(theta, scaling))


@dataclass
class Family:
    name: str
    config: dict
    length: int  # of the text that the variants use
    tensors: Callable
    model: Callable


# GPT-2 and nanoGPT ---------------------------------------------------------------------------

def gpt2_tensors(c):
    d, V = c["n_embd"], c["vocab_size"]
    inner = c.get("n_inner") or 4 * d
    names = {"transformer.wte.weight": Tensor((V, d), "embedding"),
             "transformer.wpe.weight": Tensor((c["n_positions"], d), "position")}
    for n in range(c["n_layer"]):
        at = f"transformer.h.{n}."
        names |= layer_norm(d, at + "ln_1") | conv1d(d, 3 * d, at + "attn.c_attn") | conv1d(d, d, at + "attn.c_proj")
        names |= layer_norm(d, at + "ln_2") | conv1d(d, inner, at + "mlp.c_fc") | conv1d(inner, d, at + "mlp.c_proj")
    names |= layer_norm(d, "transformer.ln_f")
    if not c.get("tie_word_embeddings", True):
        names |= linear(V, d, False, "lm_head")
    return names


def gpt2_model(c, w):
    b, eps = w.under("transformer."), c.get("layer_norm_epsilon", 1e-5)
    d, H = c["n_embd"], c["n_head"]
    blocks = []
    for n in range(c["n_layer"]):
        l = b.under(f"h.{n}.")
        qkv = l.conv1d("attn.c_attn")
        q, k, v = (Linear(qkv.weight[:, i * d:(i + 1) * d], qkv.bias[i * d:(i + 1) * d]) for i in range(3))
        scale = (d / H) ** -0.5 if c.get("scale_attn_weights", True) else 1.0
        if c.get("scale_attn_by_inverse_layer_idx"):
            scale /= n + 1
        blocks.append(Block(
            "pre", Attention(q, k, v, l.conv1d("attn.c_proj"), H, H, scale),
            FeedForward(l.conv1d("mlp.c_fc"), l.conv1d("mlp.c_proj"),
                        ACTIVATIONS[c.get("activation_function", "gelu_new")]),
            n1=l.layer_norm("ln_1", eps), n2=l.layer_norm("ln_2", eps)))
    head = b["wte.weight"] if c.get("tie_word_embeddings", True) else w["lm_head.weight"]
    return Model(lambda ids: b["wte.weight"][ids] + b["wpe.weight"][:ids.shape[-1]],
                 blocks, b.layer_norm("ln_f", eps), Head(Linear(head.T)))


GPT2 = Family("gpt2", {
    "model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "activation_function": "gelu_new",
    "attn_pdrop": 0.1, "bos_token_id": 0, "embd_pdrop": 0.1, "eos_token_id": 0, "initializer_range": 0.02,
    "layer_norm_epsilon": 1e-05, "n_ctx": 24, "n_embd": 60, "n_head": 5, "n_inner": 52, "n_layer": 3,
    "n_positions": 24, "resid_pdrop": 0.1, "vocab_size": 71}, 11, gpt2_tensors, gpt2_model)


def nanogpt_tensors(c):
    d, V, bias = c["n_embd"], c["vocab_size"], c["bias"]
    names = {"transformer.wte.weight": Tensor((V, d), "embedding"),
             "transformer.wpe.weight": Tensor((c["block_size"], d), "position")}
    for n in range(c["n_layer"]):
        at = f"transformer.h.{n}."
        names |= layer_norm(d, at + "ln_1", bias)
        names |= linear(3 * d, d, bias, at + "attn.c_attn") | linear(d, d, bias, at + "attn.c_proj")
        names |= layer_norm(d, at + "ln_2", bias)
        names |= linear(4 * d, d, bias, at + "mlp.c_fc") | linear(d, 4 * d, bias, at + "mlp.c_proj")
    return names | layer_norm(d, "transformer.ln_f", bias)


def nanogpt_model(c, w):
    b = w.under("_orig_mod.transformer.", "transformer.")
    d, H = c["n_embd"], c["n_head"]
    blocks = []
    for n in range(c["n_layer"]):
        l = b.under(f"h.{n}.")
        q, k, v = l.rows("attn.c_attn", d, d, d)
        blocks.append(Block(
            "pre", Attention(q, k, v, l.linear("attn.c_proj"), H, H, (d / H) ** -0.5),
            FeedForward(l.linear("mlp.c_fc"), l.linear("mlp.c_proj"), ACTIVATIONS["gelu"]),
            n1=l.layer_norm("ln_1", 1e-5), n2=l.layer_norm("ln_2", 1e-5)))
    return Model(lambda ids: b["wte.weight"][ids] + b["wpe.weight"][:ids.shape[-1]],
                 blocks, b.layer_norm("ln_f", 1e-5), Head(Linear(b["wte.weight"].T)))


NANOGPT = Family("nanogpt", {
    "n_layer": 3, "n_head": 4, "n_embd": 56, "block_size": 20, "bias": True, "vocab_size": 67, "dropout": 0.0},
    9, nanogpt_tensors, nanogpt_model)


# LLaMA and those that follow its names ---------------------------------------------------------
# One recipe; what a family does otherwise is an entry of `Ways`.

@dataclass
class Ways:
    qkv_bias: Callable = lambda c: c.get("attention_bias", False)
    o_bias: Callable = lambda c: c.get("attention_bias", False)
    qk_norm: bool = False
    fused: bool = False          # Phi-3: qkv_proj, gate_up_proj
    gemma: bool = False          # √d after the embedding, weights that hold gain - 1
    sandwich: bool = False
    no_post_norms: bool = False  # VaultGemma: Gemma 2's names of the norms before
    tied: bool = False           # unless the config says otherwise
    eps: float = 1e-6
    activation: Callable = lambda c: c.get("hidden_act", "silu")
    scale: Callable = lambda c, d_k: d_k ** -0.5
    window: Callable = lambda c, n: None
    rope: Callable = lambda c, n, dims: scaled_rope(c, dims, rope_base(c), rope_scaling(c))
    softcap: Callable = lambda c: None
    final_softcap: Callable = lambda c: None
    text: Callable = lambda c: c  # where the config of the text model stands
    prefix: str = "model."


def rope_base(c, default=10000.0):
    return c.get("rope_theta", c.get("rope_parameters", {}).get("rope_theta", default))


def rope_scaling(c):
    return c.get("rope_scaling") or c.get("rope_parameters")


def head_width(c):
    return c.get("head_dim") or c["hidden_size"] // c["num_attention_heads"]


def llama_tensors(ways, c):
    c = ways.text(c)
    d, ff, V, H = c["hidden_size"], c["intermediate_size"], c["vocab_size"], c["num_attention_heads"]
    H_kv, d_k = c.get("num_key_value_heads", H), head_width(c)
    gain = "offset" if ways.gemma else "gain"
    norm = lambda name, width=d: {f"{name}.weight": Tensor((width,), gain)}
    mlp_bias = c.get("mlp_bias", False)
    names = {f"{ways.prefix}embed_tokens.weight": Tensor((V, d), "embedding")}
    for n in range(c["num_hidden_layers"]):
        at = f"{ways.prefix}layers.{n}."
        attn, mlp = at + "self_attn.", at + "mlp."
        names |= norm(at + "input_layernorm")
        if ways.fused:
            names |= linear((H + 2 * H_kv) * d_k, d, False, attn + "qkv_proj")
        else:
            names |= linear(H * d_k, d, ways.qkv_bias(c), attn + "q_proj")
            names |= linear(H_kv * d_k, d, ways.qkv_bias(c), attn + "k_proj")
            names |= linear(H_kv * d_k, d, ways.qkv_bias(c), attn + "v_proj")
        if ways.qk_norm:
            names |= norm(attn + "q_norm", d_k) | norm(attn + "k_norm", d_k)
        names |= linear(d, H * d_k, ways.o_bias(c), attn + "o_proj")
        names |= norm(at + ("pre_feedforward_layernorm" if ways.no_post_norms else "post_attention_layernorm"))
        if ways.sandwich:
            names |= norm(at + "pre_feedforward_layernorm") | norm(at + "post_feedforward_layernorm")
        if ways.fused:
            names |= linear(2 * ff, d, False, mlp + "gate_up_proj")
        else:
            names |= linear(ff, d, mlp_bias, mlp + "gate_proj") | linear(ff, d, mlp_bias, mlp + "up_proj")
        names |= linear(d, ff, mlp_bias, mlp + "down_proj")
    names |= norm(f"{ways.prefix}norm")
    if not c.get("tie_word_embeddings", ways.tied):
        names |= linear(V, d, False, "lm_head")
    return names


def llama_model(ways, c, w):
    c = ways.text(c)
    d, ff, H, d_k = c["hidden_size"], c["intermediate_size"], c["num_attention_heads"], head_width(c)
    H_kv = c.get("num_key_value_heads", H)
    both = bool(c.get("use_bidirectional_attention"))  # EmbeddingGemma: half a window to each side
    b = w.under(ways.prefix, "model.language_model.", "model.")
    norm = lambda l, name: Norm("rms", c.get("rms_norm_eps", ways.eps), l[f"{name}.weight"] + (1 if ways.gemma else 0))
    blocks = []
    for n in range(c["num_hidden_layers"]):
        l = b.under(f"layers.{n}.")
        attn, mlp = l.under("self_attn."), l.under("mlp.")
        if ways.fused:
            q, k, v = attn.rows("qkv_proj", H * d_k, H_kv * d_k, H_kv * d_k)
            gate, up = mlp.rows("gate_up_proj", ff, ff)
        else:
            q, k, v = (attn.linear(f"{x}_proj") for x in "qkv")
            gate, up = mlp.linear("gate_proj"), mlp.linear("up_proj")
        rotary = int(d_k * c.get("partial_rotary_factor", 1.0))
        window = ways.window(c, n)
        attention = Attention(
            q, k, v, attn.linear("o_proj"), H, H_kv, ways.scale(c, d_k), causal=not both,
            window=None if both else window, reach=window // 2 if both and window else None, softcap=ways.softcap(c), rope=ways.rope(c, n, rotary),
            q_norm=norm(attn, "q_norm") if ways.qk_norm else None,
            k_norm=norm(attn, "k_norm") if ways.qk_norm else None)
        feed_forward = FeedForward(gate, mlp.linear("down_proj"), ACTIVATIONS[ways.activation(c)], up)
        # Gemma 2 and 3 keep LLaMA's name post_attention_layernorm for another place.
        norms = ["input_layernorm", "pre_feedforward_layernorm" if ways.no_post_norms else "post_attention_layernorm"]
        if ways.sandwich:
            norms += ["pre_feedforward_layernorm", "post_feedforward_layernorm"]
        blocks.append(Block("sandwich" if ways.sandwich else "pre", attention, feed_forward,
                            **{f"n{i + 1}": norm(l, name) for i, name in enumerate(norms)}))
    table = b["embed_tokens.weight"]
    factor = rounded(b.dtype("embed_tokens.weight"), d ** 0.5) if ways.gemma else 1.0
    head = None
    if c.get("tie_word_embeddings", ways.tied):
        head = Head(Linear(table.T), softcap=ways.final_softcap(c))
    elif "lm_head.weight" in w:
        head = Head(Linear(w["lm_head.weight"].T), softcap=ways.final_softcap(c))
    return Model(lambda ids: table[ids] * factor, blocks, norm(b, "norm"), head, not both)


def llama_family(name, config, length, ways):
    return Family(name, config, length, lambda c: llama_tensors(ways, c), lambda c, w: llama_model(ways, c, w))


LLAMA = llama_family("llama", {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "bos_token_id": 1, "eos_token_id": 2,
    "hidden_act": "silu", "hidden_size": 72, "initializer_range": 0.02, "intermediate_size": 100,
    "max_position_embeddings": 64, "num_attention_heads": 6, "num_hidden_layers": 4, "pad_token_id": 0,
    "rms_norm_eps": 1e-06, "tie_word_embeddings": False, "torch_dtype": "float16", "use_cache": True,
    "vocab_size": 83}, 13, Ways())

MISTRAL = llama_family("mistral", {
    "architectures": ["MistralForCausalLM"], "model_type": "mistral", "attention_dropout": 0.0, "bos_token_id": 1,
    "eos_token_id": 2, "hidden_act": "silu", "hidden_size": 72, "initializer_range": 0.02, "intermediate_size": 100,
    "max_position_embeddings": 64, "num_attention_heads": 6, "num_hidden_layers": 4, "num_key_value_heads": 2,
    "rms_norm_eps": 1e-05, "rope_theta": 10000.0, "sliding_window": 5, "tie_word_embeddings": False,
    "torch_dtype": "bfloat16", "use_cache": True, "vocab_size": 83}, 13,
    Ways(window=lambda c, n: c.get("sliding_window", 4096)))


def qwen_window(c, n):
    """Only if use_sliding_window, and only from layer max_window_layers on."""
    return c["sliding_window"] if c.get("use_sliding_window", False) and n >= c["max_window_layers"] else None


QWEN2 = llama_family("qwen2", {
    "architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2", "attention_dropout": 0.0, "bos_token_id": 1,
    "eos_token_id": 2, "hidden_act": "silu", "hidden_size": 72, "initializer_range": 0.02, "intermediate_size": 100,
    "max_position_embeddings": 64, "max_window_layers": 1, "num_attention_heads": 6, "num_hidden_layers": 4,
    "num_key_value_heads": 2, "rms_norm_eps": 1e-06, "rope_theta": 1000000.0, "sliding_window": 5,
    "tie_word_embeddings": False, "torch_dtype": "bfloat16", "use_cache": True, "use_sliding_window": False,
    "vocab_size": 83}, 13,
    Ways(qkv_bias=lambda c: True, o_bias=lambda c: False, window=qwen_window))

QWEN3 = llama_family("qwen3", {
    "architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "attention_bias": False, "attention_dropout": 0.0,
    "bos_token_id": 1, "eos_token_id": 2, "head_dim": 16, "hidden_act": "silu", "hidden_size": 72,
    "initializer_range": 0.02, "intermediate_size": 100, "max_position_embeddings": 64, "max_window_layers": 4,
    "num_attention_heads": 6, "num_hidden_layers": 4, "num_key_value_heads": 3, "rms_norm_eps": 1e-06,
    "rope_scaling": None, "rope_theta": 1000000, "sliding_window": None, "tie_word_embeddings": True,
    "torch_dtype": "bfloat16", "use_cache": True, "use_sliding_window": False, "vocab_size": 83}, 13,
    Ways(qk_norm=True, window=qwen_window))

PHI3 = llama_family("phi3", {
    "architectures": ["Phi3ForCausalLM"], "model_type": "phi3", "attention_bias": False, "attention_dropout": 0.0,
    "bos_token_id": 1, "embd_pdrop": 0.0, "eos_token_id": 2, "hidden_act": "silu", "hidden_size": 72,
    "initializer_range": 0.02, "intermediate_size": 100, "max_position_embeddings": 64, "num_attention_heads": 6,
    "num_hidden_layers": 4, "num_key_value_heads": 6, "original_max_position_embeddings": 64, "pad_token_id": 0,
    "resid_pdrop": 0.0, "rms_norm_eps": 1e-05, "rope_scaling": None, "rope_theta": 10000.0, "sliding_window": 5,
    "tie_word_embeddings": False, "torch_dtype": "bfloat16", "use_cache": True, "vocab_size": 83}, 13,
    Ways(fused=True, eps=1e-5, window=lambda c, n: c.get("sliding_window")))


def gemma_activation(c):
    """hidden_act of the first configs means the tanh form, whatever it is; Transformers 5 computes it."""
    if c.get("transformers_version", "4").startswith("5."):
        return c["hidden_act"]
    return c.get("hidden_activation") or "gelu_pytorch_tanh"


GEMMA = llama_family("gemma", {
    "architectures": ["GemmaForCausalLM"], "model_type": "gemma", "attention_bias": False, "attention_dropout": 0.0,
    "bos_token_id": 2, "eos_token_id": 1, "head_dim": 16, "hidden_act": "gelu",
    "hidden_activation": "gelu_pytorch_tanh", "hidden_size": 44, "initializer_range": 0.02, "intermediate_size": 50,
    "max_position_embeddings": 64, "num_attention_heads": 6, "num_hidden_layers": 4, "num_key_value_heads": 1,
    "pad_token_id": 0, "rms_norm_eps": 1e-06, "rope_theta": 10000.0, "torch_dtype": "bfloat16", "use_cache": True,
    "vocab_size": 89}, 13,
    Ways(gemma=True, tied=True, activation=gemma_activation))

GEMMA2 = llama_family("gemma2", {
    "architectures": ["Gemma2ForCausalLM"], "model_type": "gemma2", "attention_bias": False, "attention_dropout": 0.0,
    "attn_logit_softcapping": 3.0, "bos_token_id": 2, "cache_implementation": "hybrid", "eos_token_id": 1,
    "final_logit_softcapping": 7.0, "head_dim": 16, "hidden_act": "gelu_pytorch_tanh",
    "hidden_activation": "gelu_pytorch_tanh", "hidden_size": 44, "initializer_range": 0.02, "intermediate_size": 50,
    "max_position_embeddings": 64, "num_attention_heads": 6, "num_hidden_layers": 4, "num_key_value_heads": 2,
    "pad_token_id": 0, "query_pre_attn_scalar": 20, "rms_norm_eps": 1e-06, "rope_theta": 10000.0,
    "sliding_window": 5, "torch_dtype": "float32", "use_cache": True, "vocab_size": 89}, 13,
    Ways(gemma=True, tied=True, sandwich=True, activation=lambda c: c["hidden_activation"],
         scale=lambda c, d_k: c["query_pre_attn_scalar"] ** -0.5,
         window=lambda c, n: c["sliding_window"] if n % 2 == 0 else None,
         softcap=lambda c: c.get("attn_logit_softcapping", 50.0),
         final_softcap=lambda c: c.get("final_logit_softcapping", 30.0)))


VAULTGEMMA = llama_family("vaultgemma", {
    "architectures": ["VaultGemmaForCausalLM"], "model_type": "vaultgemma", "attention_bias": False, "attention_dropout": 0.0,
    "attn_logit_softcapping": 3.0, "bos_token_id": 2, "eos_token_id": 1, "final_logit_softcapping": 7.0, "head_dim": 16,
    "hidden_activation": "gelu_pytorch_tanh", "hidden_size": 44, "initializer_range": 0.02, "intermediate_size": 50,
    "layer_types": ["sliding_attention", "full_attention"] * 2, "max_position_embeddings": 64, "num_attention_heads": 6,
    "num_hidden_layers": 4, "num_key_value_heads": 2, "pad_token_id": 0, "query_pre_attn_scalar": 20, "rms_norm_eps": 1e-06,
    "rope_parameters": {"rope_theta": 10000.0, "rope_type": "default"}, "sliding_window": 5, "dtype": "float32",
    "transformers_version": "5.17.0", "use_cache": True, "vocab_size": 89}, 13,
    Ways(gemma=True, tied=True, no_post_norms=True, activation=lambda c: c["hidden_activation"],
         scale=lambda c, d_k: c["query_pre_attn_scalar"] ** -0.5,
         window=lambda c, n: c["sliding_window"] if n % 2 == 0 else None,
         softcap=lambda c: c["attn_logit_softcapping"], final_softcap=lambda c: c["final_logit_softcapping"]))


# Gemma 3: a published config may leave out everything that these say.
GEMMA3_DEFAULTS = {
    "attention_bias": False, "final_logit_softcapping": None, "head_dim": 256,
    "hidden_activation": "gelu_pytorch_tanh", "num_attention_heads": 8, "num_key_value_heads": 4,
    "query_pre_attn_scalar": 256, "rms_norm_eps": 1e-6, "rope_local_base_freq": 10000.0, "rope_scaling": None,
    "sliding_window": 4096, "sliding_window_pattern": 6}


def gemma3_text(c):
    c = GEMMA3_DEFAULTS | c.get("text_config", c)
    types = c.get("layer_types")
    pattern = c["sliding_window_pattern"]
    c["local"] = [types[n] == "sliding_attention" if types else (n + 1) % pattern != 0
                  for n in range(c["num_hidden_layers"])]
    return c


def gemma3_rope(c, n, dims):
    if "rope_parameters" in c:
        p = c["rope_parameters"]["sliding_attention" if c["local"][n] else "full_attention"]
        return Rope(scaled_frequencies(frequencies(dims, p["rope_theta"]), p))
    if c["local"][n]:
        return Rope(frequencies(dims, c["rope_local_base_freq"]))
    return Rope(scaled_frequencies(frequencies(dims, rope_base(c, 1e6)), c["rope_scaling"]))


GEMMA3_WAYS = Ways(
    gemma=True, tied=True, sandwich=True, qk_norm=True, text=gemma3_text, rope=gemma3_rope,
    activation=lambda c: c["hidden_activation"],
    scale=lambda c, d_k: c["query_pre_attn_scalar"] ** -0.5,
    window=lambda c, n: c["sliding_window"] if c["local"][n] else None,
    final_softcap=lambda c: c["final_logit_softcapping"])

GEMMA3 = llama_family("gemma3", {
    "architectures": ["Gemma3ForCausalLM"], "model_type": "gemma3_text", "attention_bias": False,
    "attention_dropout": 0.0, "attn_logit_softcapping": None, "bos_token_id": 2, "cache_implementation": "hybrid",
    "eos_token_id": [1, 106], "final_logit_softcapping": None, "head_dim": 16,
    "hidden_activation": "gelu_pytorch_tanh", "hidden_size": 44, "initializer_range": 0.02, "intermediate_size": 50,
    "max_position_embeddings": 64, "num_attention_heads": 6, "num_hidden_layers": 4, "num_key_value_heads": 2,
    "pad_token_id": 0, "query_pre_attn_scalar": 20, "rms_norm_eps": 1e-06, "rope_local_base_freq": 10000,
    "rope_scaling": None, "rope_theta": 1000000, "sliding_window": 5, "sliding_window_pattern": 3,
    "torch_dtype": "bfloat16", "use_cache": True, "vocab_size": 89}, 13, GEMMA3_WAYS)

# The multimodal checkpoints, published with as little as this. Their text model stands below another name.
GEMMA3_NESTED = llama_family("gemma3", {
    "architectures": ["Gemma3ForConditionalGeneration"], "model_type": "gemma3", "boi_token_index": 86,
    "eoi_token_index": 87, "eos_token_id": [1, 106], "image_token_index": 88, "initializer_range": 0.02,
    "mm_tokens_per_image": 4,
    "text_config": {
        "hidden_size": 44, "intermediate_size": 50, "model_type": "gemma3_text", "num_hidden_layers": 7,
        "rope_scaling": {"factor": 8.0, "rope_type": "linear"}, "sliding_window": 5, "vocab_size": 89},
    "torch_dtype": "bfloat16",
    "vision_config": {
        "hidden_size": 36, "image_size": 28, "intermediate_size": 40, "model_type": "siglip_vision_model",
        "num_attention_heads": 3, "num_hidden_layers": 2, "patch_size": 14, "vision_use_head": False}}, 13,
    Ways(**{**GEMMA3_WAYS.__dict__, "prefix": "language_model.model."}))


# GPT-NeoX, Pythia ------------------------------------------------------------------------------

def neox_tensors(c):
    d, ff, V = c["hidden_size"], c["intermediate_size"], c["vocab_size"]
    bias = c.get("attention_bias", True)
    names = {"gpt_neox.embed_in.weight": Tensor((V, d), "embedding")}
    for n in range(c["num_hidden_layers"]):
        at = f"gpt_neox.layers.{n}."
        names |= layer_norm(d, at + "input_layernorm") | layer_norm(d, at + "post_attention_layernorm")
        names |= linear(3 * d, d, bias, at + "attention.query_key_value") | linear(d, d, bias, at + "attention.dense")
        names |= linear(ff, d, True, at + "mlp.dense_h_to_4h") | linear(d, ff, True, at + "mlp.dense_4h_to_h")
    names |= layer_norm(d, "gpt_neox.final_layer_norm")
    return names if c["tie_word_embeddings"] else names | linear(V, d, False, "embed_out")


def neox_model(c, w):
    b, eps = w.under("gpt_neox."), c["layer_norm_eps"]
    H = c["num_attention_heads"]
    d_k = c["hidden_size"] // H
    theta = frequencies(int(d_k * c["rotary_pct"]), c["rotary_emb_base"])
    blocks = []
    for n in range(c["num_hidden_layers"]):
        l = b.under(f"layers.{n}.")
        thirds = l.rows("attention.query_key_value", *[d_k] * (3 * H))  # q, k, v of head 0, of head 1, …
        q, k, v = (Linear(np.concatenate([p.weight for p in thirds[i::3]], axis=1),
                          np.concatenate([p.bias for p in thirds[i::3]])) for i in range(3))
        blocks.append(Block(
            "parallel" if c.get("use_parallel_residual", True) else "pre",
            Attention(q, k, v, l.linear("attention.dense"), H, H, d_k ** -0.5, rope=Rope(theta)),
            FeedForward(l.linear("mlp.dense_h_to_4h"), l.linear("mlp.dense_4h_to_h"), ACTIVATIONS[c["hidden_act"]]),
            n1=l.layer_norm("input_layernorm", eps), n2=l.layer_norm("post_attention_layernorm", eps)))
    table = b["embed_in.weight"]
    head = Head(Linear((table if c["tie_word_embeddings"] else w["embed_out.weight"]).T))
    return Model(lambda ids: table[ids], blocks, b.layer_norm("final_layer_norm", eps), head)


NEOX = Family("gpt_neox", {
    "architectures": ["GPTNeoXForCausalLM"], "model_type": "gpt_neox", "bos_token_id": 0, "eos_token_id": 0,
    "hidden_act": "gelu", "hidden_size": 72, "initializer_range": 0.02, "intermediate_size": 100,
    "layer_norm_eps": 1e-05, "max_position_embeddings": 64, "num_attention_heads": 3, "num_hidden_layers": 4,
    "rotary_emb_base": 10000, "rotary_pct": 0.25, "tie_word_embeddings": False, "torch_dtype": "float16",
    "use_cache": True, "use_parallel_residual": True, "vocab_size": 83}, 13, neox_tensors, neox_model)


# BERT, RoBERTa, DistilBERT -----------------------------------------------------------------------

def bert_tensors(c, base="bert."):
    d, ff, V = c["hidden_size"], c["intermediate_size"], c["vocab_size"]
    at = base + "embeddings."
    names = {at + "word_embeddings.weight": Tensor((V, d), "embedding"),
             at + "position_embeddings.weight": Tensor((c["max_position_embeddings"], d), "position"),
             at + "token_type_embeddings.weight": Tensor((c["type_vocab_size"], d), "position")}
    names |= layer_norm(d, at + "LayerNorm")
    for n in range(c["num_hidden_layers"]):
        at = f"{base}encoder.layer.{n}."
        for x in ("query", "key", "value"):
            names |= linear(d, d, True, f"{at}attention.self.{x}")
        if c.get("position_embedding_type", "absolute") != "absolute":
            distances = 2 * c["max_position_embeddings"] - 1
            names[f"{at}attention.self.distance_embedding.weight"] = \
                Tensor((distances, d // c["num_attention_heads"]), "position")
        names |= linear(d, d, True, at + "attention.output.dense") | layer_norm(d, at + "attention.output.LayerNorm")
        names |= linear(ff, d, True, at + "intermediate.dense") | linear(d, ff, True, at + "output.dense")
        names |= layer_norm(d, at + "output.LayerNorm")
    return names


def with_bert_head(c):
    names = bert_tensors(c)
    d, V, at = c["hidden_size"], c["vocab_size"], "cls.predictions."
    if not c.get("tie_word_embeddings", True):
        names |= linear(V, d, False, at + "decoder")
    return names | {at + "bias": Tensor((V,), "bias")} | linear(d, d, True, at + "transform.dense") | \
        layer_norm(d, at + "transform.LayerNorm")


def with_roberta_head(c):
    names, d, V = bert_tensors(c, "roberta."), c["hidden_size"], c["vocab_size"]
    return names | {"lm_head.bias": Tensor((V,), "bias")} | linear(d, d, True, "lm_head.dense") | \
        layer_norm(d, "lm_head.layer_norm")


def mlm_head(w, dense, norm, decoder, bias, activation, eps):
    """Dense, activation, norm, the words' own vectors, a bias; none if the base model was saved alone."""
    if f"{dense}.weight" not in w:
        return None
    first, second = w.linear(dense), w.layer_norm(norm, eps)
    return Head(Linear(decoder.T, w[bias]), lambda x: second(activation(first(x))))


def bert_blocks(c, b):
    d, H, eps = c["hidden_size"], c["num_attention_heads"], c.get("layer_norm_eps", 1e-12)
    for n in range(c["num_hidden_layers"]):
        l = b.under(f"encoder.layer.{n}.")
        q, k, v = (l.linear(f"attention.self.{x}") for x in ("query", "key", "value"))
        yield Block(
            "post", Attention(
                q, k, v, l.linear("attention.output.dense"), H, H, (d / H) ** -0.5, causal=False,
                distances=l.get("attention.self.distance_embedding.weight", None),
                of_keys=c.get("position_embedding_type") == "relative_key_query"),
            FeedForward(l.linear("intermediate.dense"), l.linear("output.dense"), ACTIVATIONS[c["hidden_act"]]),
            n1=l.layer_norm("attention.output.LayerNorm", eps), n2=l.layer_norm("output.LayerNorm", eps))


def bert_embed(b, eps, positions, absolute=True):
    norm = b.layer_norm("embeddings.LayerNorm", eps)
    words, places = b["embeddings.word_embeddings.weight"], b["embeddings.position_embeddings.weight"]
    types = b.get("embeddings.token_type_embeddings.weight", np.zeros((1, 1)))
    return lambda ids: norm(words[ids] + (places[positions(ids)] if absolute else 0) + types[0])


def from_zero(ids):
    return np.arange(ids.shape[-1])


def bert_model(c, w):
    w = Weights({n.replace(".gamma", ".weight").replace(".beta", ".bias"): t for n, t in w.tensors.items()})
    b, eps = w.under("bert."), c["layer_norm_eps"]
    tied = c.get("tie_word_embeddings", True)
    decoder = b["embeddings.word_embeddings.weight"] if tied else w["cls.predictions.decoder.weight"]
    head = mlm_head(w, "cls.predictions.transform.dense", "cls.predictions.transform.LayerNorm",
                    decoder, "cls.predictions.bias", ACTIVATIONS[c["hidden_act"]], eps)
    absolute = c.get("position_embedding_type", "absolute") == "absolute"
    return Model(bert_embed(b, eps, from_zero, absolute), list(bert_blocks(c, b)), head=head, causal=False)


BERT = Family("bert", {
    "architectures": ["BertForMaskedLM"], "model_type": "bert", "attention_probs_dropout_prob": 0.1,
    "gradient_checkpointing": False, "hidden_act": "gelu", "hidden_dropout_prob": 0.1, "hidden_size": 60,
    "initializer_range": 0.02, "intermediate_size": 52, "layer_norm_eps": 1e-12, "max_position_embeddings": 24,
    "num_attention_heads": 5, "num_hidden_layers": 3, "pad_token_id": 0, "position_embedding_type": "absolute",
    "type_vocab_size": 2, "use_cache": True, "vocab_size": 71}, 11, with_bert_head, bert_model)


def roberta_model(c, w):
    b, eps, pad = w.under("roberta."), c.get("layer_norm_eps", 1e-12), c["pad_token_id"]

    def positions(ids):
        """pad_id itself for padding; the real tokens count on from pad_id + 1."""
        real = ids != pad
        return pad + np.cumsum(real, -1) * real

    head = mlm_head(w, "lm_head.dense", "lm_head.layer_norm", b["embeddings.word_embeddings.weight"], "lm_head.bias",
                    ACTIVATIONS["gelu"], eps)
    return Model(bert_embed(b, eps, positions), list(bert_blocks(c, b)), head=head, causal=False)


ROBERTA = Family("roberta", {
    "architectures": ["RobertaForMaskedLM"], "model_type": "roberta", "attention_probs_dropout_prob": 0.1,
    "bos_token_id": 0, "eos_token_id": 2, "hidden_act": "gelu", "hidden_dropout_prob": 0.1, "hidden_size": 60,
    "initializer_range": 0.02, "intermediate_size": 52, "layer_norm_eps": 1e-05, "max_position_embeddings": 26,
    "num_attention_heads": 5, "num_hidden_layers": 3, "pad_token_id": 1, "type_vocab_size": 1,
    "vocab_size": 71}, 11, with_roberta_head, roberta_model)


# ALBERT --------------------------------------------------------------------------------------

def albert_tensors(c):
    d, E, ff, V = c["hidden_size"], c["embedding_size"], c["intermediate_size"], c["vocab_size"]
    at = "albert.embeddings."
    names = {at + "word_embeddings.weight": Tensor((V, E), "embedding"),
             at + "position_embeddings.weight": Tensor((c["max_position_embeddings"], E), "position"),
             at + "token_type_embeddings.weight": Tensor((c["type_vocab_size"], E), "position")}
    names |= layer_norm(E, at + "LayerNorm") | linear(d, E, True, "albert.encoder.embedding_hidden_mapping_in")
    for g in range(c["num_hidden_groups"]):
        for i in range(c["inner_group_num"]):
            at = f"albert.encoder.albert_layer_groups.{g}.albert_layers.{i}."
            for x in ("query", "key", "value", "dense"):
                names |= linear(d, d, True, f"{at}attention.{x}")
            names |= layer_norm(d, at + "attention.LayerNorm") | layer_norm(d, at + "full_layer_layer_norm")
            names |= linear(ff, d, True, at + "ffn") | linear(d, ff, True, at + "ffn_output")
    return names | {"predictions.bias": Tensor((V,), "bias")} | linear(E, d, True, "predictions.dense") | \
        layer_norm(E, "predictions.LayerNorm")


def albert_model(c, w):
    """Layer n of num_hidden_layers runs all layers of group floor(n / (layers / groups)), one after the other."""
    b, eps, act = w.under("albert."), c["layer_norm_eps"], ACTIVATIONS[c["hidden_act"]]
    d, H = c["hidden_size"], c["num_attention_heads"]

    def block(g, i):
        l = b.under(f"encoder.albert_layer_groups.{g}.albert_layers.{i}.")
        q, k, v, o = (l.linear(f"attention.{x}") for x in ("query", "key", "value", "dense"))
        return Block("post", Attention(q, k, v, o, H, H, (d / H) ** -0.5, causal=False),
                     FeedForward(l.linear("ffn"), l.linear("ffn_output"), act),
                     n1=l.layer_norm("attention.LayerNorm", eps), n2=l.layer_norm("full_layer_layer_norm", eps))

    per_group = c["num_hidden_layers"] / c["num_hidden_groups"]
    blocks = [block(int(n / per_group), i) for n in range(c["num_hidden_layers"]) for i in range(c["inner_group_num"])]
    embed, widen = bert_embed(b, eps, from_zero), b.linear("encoder.embedding_hidden_mapping_in")
    head = mlm_head(w, "predictions.dense", "predictions.LayerNorm", b["embeddings.word_embeddings.weight"],
                    "predictions.bias", act, eps)
    return Model(lambda ids: widen(embed(ids)), blocks, None, head, causal=False)


ALBERT = Family("albert", {
    "model_type": "albert", "architectures": ["AlbertForMaskedLM"], "attention_probs_dropout_prob": 0, "bos_token_id": 2,
    "classifier_dropout_prob": 0.1, "down_scale_factor": 1, "embedding_size": 20, "eos_token_id": 3, "gap_size": 0,
    "hidden_act": "gelu_new", "hidden_dropout_prob": 0, "hidden_size": 48, "initializer_range": 0.02,
    "inner_group_num": 1, "intermediate_size": 56, "layer_norm_eps": 1e-12, "max_position_embeddings": 22,
    "net_structure_type": 0, "num_attention_heads": 4, "num_hidden_groups": 1, "num_hidden_layers": 5,
    "num_memory_blocks": 0, "pad_token_id": 0, "type_vocab_size": 2, "vocab_size": 63},
    12, albert_tensors, albert_model)


def distilbert_tensors(c):
    d, ff, V = c["dim"], c["hidden_dim"], c["vocab_size"]
    at = "distilbert.embeddings."
    names = {at + "word_embeddings.weight": Tensor((V, d), "embedding"),
             at + "position_embeddings.weight": Tensor((c["max_position_embeddings"], d), "position")}
    names |= layer_norm(d, at + "LayerNorm")
    for n in range(c["n_layers"]):
        at = f"distilbert.transformer.layer.{n}."
        for x in ("q_lin", "k_lin", "v_lin", "out_lin"):
            names |= linear(d, d, True, f"{at}attention.{x}")
        names |= layer_norm(d, at + "sa_layer_norm") | layer_norm(d, at + "output_layer_norm")
        names |= linear(ff, d, True, at + "ffn.lin1") | linear(d, ff, True, at + "ffn.lin2")
    return names | linear(d, d, True, "vocab_transform") | layer_norm(d, "vocab_layer_norm") | \
        {"vocab_projector.bias": Tensor((V,), "bias")}


def distilbert_model(c, w):
    b, eps, d, H = w.under("distilbert."), 1e-12, c["dim"], c["n_heads"]
    activation = ACTIVATIONS[c["activation"]]
    blocks = []
    for n in range(c["n_layers"]):
        l = b.under(f"transformer.layer.{n}.")
        q, k, v, o = (l.linear(f"attention.{x}_lin") for x in ("q", "k", "v", "out"))
        blocks.append(Block(
            "post", Attention(q, k, v, o, H, H, (d / H) ** -0.5, causal=False),
            FeedForward(l.linear("ffn.lin1"), l.linear("ffn.lin2"), activation),
            n1=l.layer_norm("sa_layer_norm", eps), n2=l.layer_norm("output_layer_norm", eps)))
    head = mlm_head(w, "vocab_transform", "vocab_layer_norm", b["embeddings.word_embeddings.weight"],
                    "vocab_projector.bias", activation, eps)
    return Model(bert_embed(b, eps, from_zero), blocks, head=head, causal=False)


DISTILBERT = Family("distilbert", {
    "activation": "gelu", "architectures": ["DistilBertForMaskedLM"], "attention_dropout": 0.1, "dim": 60,
    "dropout": 0.1, "hidden_dim": 52, "initializer_range": 0.02, "max_position_embeddings": 24,
    "model_type": "distilbert", "n_heads": 5, "n_layers": 3, "pad_token_id": 0, "qa_dropout": 0.1,
    "seq_classif_dropout": 0.2, "sinusoidal_pos_embds": False, "tie_weights_": True, "vocab_size": 71}, 11,
    distilbert_tensors, distilbert_model)


# TransformerLens ----------------------------------------------------------------------------------

def tl_norm_tensors(c, name, width):
    kind = c["normalization_type"]
    return ({f"{name}.w": Tensor((width,), "gain")} if kind in ("LN", "RMS") else {}) | \
           ({f"{name}.b": Tensor((width,), "bias")} if kind == "LN" else {})


def tl_tensors(c):
    d, H, d_h = c["d_model"], c["n_heads"], c["d_head"]
    H_kv = c.get("n_key_value_heads") or H
    hidden = "_" if H_kv != H else ""  # grouped heads have _W_K; W_K is then a property that repeats it
    out = c.get("d_vocab_out", c["d_vocab"])
    names = {"embed.W_E": Tensor((c["d_vocab"], d), "embedding")}
    if c["positional_embedding_type"] == "standard":
        names["pos_embed.W_pos"] = Tensor((c["n_ctx"], d), "position")
    for n in range(c["n_layers"]):
        at = f"blocks.{n}."
        names |= tl_norm_tensors(c, at + "ln1", d)
        if not c["attn_only"]:
            names |= tl_norm_tensors(c, at + "ln2", d)
        for letter, heads, mark in (("Q", H, ""), ("K", H_kv, hidden), ("V", H_kv, hidden)):
            names[f"{at}attn.{mark}W_{letter}"] = Tensor((heads, d, d_h), "matrix", d)
            names[f"{at}attn.{mark}b_{letter}"] = Tensor((heads, d_h), "bias")
        names |= {f"{at}attn.W_O": Tensor((H, d_h, d), "matrix", H * d_h), f"{at}attn.b_O": Tensor((d,), "bias")}
        if not c["attn_only"]:
            ff = c["d_mlp"]
            if c.get("gated_mlp"):
                names[f"{at}mlp.W_gate"] = Tensor((d, ff), "matrix", d)
            names |= {f"{at}mlp.W_in": Tensor((d, ff), "matrix", d), f"{at}mlp.b_in": Tensor((ff,), "bias"),
                      f"{at}mlp.W_out": Tensor((ff, d), "matrix", ff), f"{at}mlp.b_out": Tensor((d,), "bias")}
            if c["act_fn"] == "solu_ln":
                names |= tl_norm_tensors(c, at + "mlp.ln", ff)
    return names | tl_norm_tensors(c, "ln_final", d) | \
        {"unembed.W_U": Tensor((d, out), "matrix", d), "unembed.b_U": Tensor((out,), "bias")}


def tl_norm(c, w, name):
    kind = c["normalization_type"]
    if kind is None:
        return identity
    return Norm("layer" if kind.startswith("LN") else "rms", c["eps"], w.get(f"{name}.w", 1.0), w.get(f"{name}.b"))


def tl_feed_forward(c, l):
    pre = Linear(l["mlp.W_in"], l["mlp.b_in"])
    out = Linear(l["mlp.W_out"], l["mlp.b_out"])
    if c.get("gated_mlp"):  # (act(x W_gate) · (x W_in) + b_in) W_out + b_out
        return FeedForward(Linear(l["mlp.W_gate"]), out, ACTIVATIONS[c["act_fn"]], Linear(pre.weight), pre.bias)
    if c["act_fn"] == "solu_ln":
        kind = "LN" if c["normalization_type"] == "LN" else "LNPre"
        norm = tl_norm(c | {"normalization_type": kind}, l, "mlp.ln")
        return FeedForward(pre, out, ACTIVATIONS["solu"], act_norm=norm)
    return FeedForward(pre, out, ACTIVATIONS[c["act_fn"]])


def tl_model(c, w):
    d, H, d_h = c["d_model"], c["n_heads"], c["d_head"]
    H_kv = c.get("n_key_value_heads") or H
    side_by_side = lambda W: W.transpose(1, 0, 2).reshape(d, -1)  # H, d, d_h -> d, H·d_h
    rope = None
    if c["positional_embedding_type"] == "rotary":
        rope = Rope(frequencies(c["rotary_dim"], c.get("rotary_base", 10000)), c.get("rotary_adjacent_pairs", False))
    blocks = []
    for n in range(c["n_layers"]):
        l = w.under(f"blocks.{n}.")
        projection = {}
        for letter in "QKV":
            mark = "" if f"attn.W_{letter}" in l else "_"
            projection[letter] = Linear(side_by_side(l[f"attn.{mark}W_{letter}"]),
                                        l[f"attn.{mark}b_{letter}"].reshape(-1))
        divisor = c.get("attn_scale", d_h ** 0.5) if c.get("use_attn_scale", True) else 1.0
        if c.get("scale_attn_by_inverse_layer_idx"):
            divisor *= n + 1
        attention = Attention(
            projection["Q"], projection["K"], projection["V"],
            Linear(l["attn.W_O"].reshape(H * d_h, d), l["attn.b_O"]), H, H_kv, 1 / divisor,
            causal=c.get("attention_dir", "causal") == "causal", rope=rope)
        if c["attn_only"]:
            blocks.append(Block("attention only", attention, None, n1=tl_norm(c, l, "ln1")))
        else:
            blocks.append(Block("parallel" if c.get("parallel_attn_mlp") else "pre", attention, tl_feed_forward(c, l),
                                n1=tl_norm(c, l, "ln1"), n2=tl_norm(c, l, "ln2")))
    places = w.get("pos_embed.W_pos", np.zeros((c["n_ctx"], 1)))
    final = tl_norm(c, w, "ln_final")
    return Model(lambda ids: w["embed.W_E"][ids] + places[:ids.shape[-1]], blocks,
                 None if final is identity else final, Head(Linear(w["unembed.W_U"], w["unembed.b_U"])),
                 causal=c.get("attention_dir", "causal") == "causal")


TRANSFORMER_LENS = Family("transformer_lens", {
    "model_name": "custom", "n_layers": 3, "d_model": 44, "n_ctx": 19, "d_head": 12, "n_heads": 5, "d_mlp": 50,
    "d_vocab": 61, "attn_only": False, "act_fn": "gelu_new", "normalization_type": "LN",
    "positional_embedding_type": "standard", "attention_dir": "causal", "eps": 1e-05, "default_prepend_bos": True},
    10, tl_tensors, tl_model)


FAMILIES = [GPT2, NANOGPT, LLAMA, MISTRAL, QWEN2, QWEN3, PHI3, GEMMA, GEMMA2, VAULTGEMMA, GEMMA3, GEMMA3_NESTED, NEOX, BERT,
            ROBERTA, ALBERT, DISTILBERT, TRANSFORMER_LENS]


def family_of(config, families=FAMILIES):
    if "d_vocab" in config:
        return TRANSFORMER_LENS
    if "block_size" in config:
        return NANOGPT
    return next(f for f in families if f.config.get("model_type") == config["model_type"])
