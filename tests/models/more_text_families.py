#!/usr/bin/env python3
"""Further families whose texts are run, causal ones and T5's encoder: a checkpoint each, and what it computes.

    /usr/bin/python3 tests/models/more_text_families.py OUTDIR

OUTDIR/NAME holds config.json, model.safetensors and expected.npz. Written from the models' papers and
what Transformers is known to do, not from lib/.
"""
import math

import numpy as np

from families import frequencies
from forward import ACTIVATIONS, Attention, Block, FeedForward, Head, Linear, Model, Norm, Rope, of_width
from text_families import LAYERS, RNG, WORDS, File, fused, write_models

D = 48  # d_model


def said(model_type, name, **keys):
    return {"model_type": model_type, "architectures": [name], "vocab_size": WORDS, "use_cache": True,
            "initializer_range": 0.02, "bos_token_id": 1, "eos_token_id": 2} | keys


def logits(rows, scale=1.0, bias=0.0):
    return Head(Linear(rows.T * scale, bias))


def own_head(f, name, bias=False):
    rows = f.table(name + ".weight", WORDS, D)
    return logits(rows, bias=f.vector(name + ".bias", WORDS) if bias else 0.0)


def gptj():
    H, dims = 6, 4
    c = said("gptj", "GPTJForCausalLM", n_embd=D, n_head=H, n_layer=LAYERS, n_inner=None, n_positions=32, rotary_dim=dims,
             activation_function="gelu_new", layer_norm_epsilon=1e-5, tie_word_embeddings=False, attn_pdrop=0.0,
             resid_pdrop=0.0, embd_pdrop=0.0, rotary=True, scale_attn_weights=True, summary_type="cls_index")
    f = File()
    words = f.table("transformer.wte.weight", WORDS, D)
    blocks = []
    for n in range(LAYERS):
        at = f"transformer.h.{n}."
        q, k, v, o = (f.linear(f"{at}attn.{x}_proj", D, D, False) for x in ("q", "k", "v", "out"))
        f.make(at + "attn.bias", np.tril(np.ones((1, 1, 32, 32)))), f.make(at + "attn.masked_bias", -1e9)
        norm = f.norm(at + "ln_1", D, 1e-5)
        blocks.append(Block("parallel", Attention(q, k, v, o, H, H, 8 ** -0.5, rope=Rope(frequencies(dims, 1e4), adjacent=True)),
                            FeedForward(f.linear(at + "mlp.fc_in", 4 * D, D), f.linear(at + "mlp.fc_out", D, 4 * D),
                                        ACTIVATIONS["gelu_new"]), n1=norm, n2=norm))
    return c, f, Model(lambda ids: words[ids], blocks, f.norm("transformer.ln_f", D, 1e-5), own_head(f, "lm_head", True))


def codegen():
    H, dims, d_k = 8, 4, 6
    c = said("codegen", "CodeGenForCausalLM", n_embd=D, n_head=H, n_layer=LAYERS, n_inner=None, n_positions=32, n_ctx=32,
             rotary_dim=dims, activation_function="gelu_new", layer_norm_epsilon=1e-5, tie_word_embeddings=False)
    f = File()
    words = f.table("transformer.wte.weight", WORDS, D)
    blocks = []
    for n in range(LAYERS):
        at = f"transformer.h.{n}."
        W = f.linear(at + "attn.qkv_proj", 3 * D, D, False).weight.reshape(D, 4, 3, D // 4)  # of each device: q, v, k
        q, v, k = (Linear(W[:, :, i].reshape(D, D)) for i in range(3))
        norm = f.norm(at + "ln_1", D, 1e-5)
        blocks.append(Block("parallel", Attention(q, k, v, f.linear(at + "attn.out_proj", D, D, False), H, H, d_k ** -0.5,
                                                  rope=Rope(frequencies(dims, 1e4), adjacent=True)),
                            FeedForward(f.linear(at + "mlp.fc_in", 4 * D, D), f.linear(at + "mlp.fc_out", D, 4 * D),
                                        ACTIVATIONS["gelu_new"]), n1=norm, n2=norm))
    return c, f, Model(lambda ids: words[ids], blocks, f.norm("transformer.ln_f", D, 1e-5), own_head(f, "lm_head", True))


def gpt_neo():
    H = 4
    c = said("gpt_neo", "GPTNeoForCausalLM", hidden_size=D, num_heads=H, num_layers=LAYERS, intermediate_size=None,
             max_position_embeddings=32, attention_types=[[["global", "local"], 2]], window_size=4,
             attention_layers=["global", "local", "global"], activation_function="gelu_new", layer_norm_epsilon=1e-5)
    f = File()
    words, places = f.table("transformer.wte.weight", WORDS, D), f.table("transformer.wpe.weight", 32, D)
    blocks = []
    for n in range(LAYERS):
        at = f"transformer.h.{n}."
        q, k, v = (f.linear(f"{at}attn.attention.{x}_proj", D, D, False) for x in ("q", "k", "v"))
        blocks.append(Block("pre", Attention(q, k, v, f.linear(at + "attn.attention.out_proj", D, D), H, H, 1.0,
                                             window=4 if n % 2 else None),
                            FeedForward(f.linear(at + "mlp.c_fc", 4 * D, D), f.linear(at + "mlp.c_proj", D, 4 * D),
                                        ACTIVATIONS["gelu_new"]), n1=f.norm(at + "ln_1", D, 1e-5), n2=f.norm(at + "ln_2", D, 1e-5)))
    return c, f, Model(lambda ids: words[ids] + places[np.arange(ids.shape[-1])], blocks, f.norm("transformer.ln_f", D, 1e-5),
                       logits(words))


def bigcode(one_key):
    H, d_k = 6, 8
    c = said("gpt_bigcode", "GPTBigCodeForCausalLM", n_embd=D, n_head=H, n_layer=LAYERS, n_inner=100, n_positions=32,
             multi_query=one_key, activation_function="gelu_pytorch_tanh", layer_norm_epsilon=1e-5, scale_attn_weights=True,
             attention_softmax_in_fp32=True, scale_attention_softmax_in_fp32=True)
    f = File()
    words, places = f.table("transformer.wte.weight", WORDS, D), f.table("transformer.wpe.weight", 32, D)
    blocks = []
    for n in range(LAYERS):
        at = f"transformer.h.{n}."
        if one_key:
            q, k, v = fused(f.linear(at + "attn.c_attn", D + 2 * d_k, D), D, d_k, d_k)
        else:
            both = f.linear(at + "attn.c_attn", 3 * D, D)
            W, b = both.weight.reshape(D, H, 3, d_k), both.bias.reshape(H, 3, d_k)
            q, k, v = (Linear(W[:, :, i].reshape(D, D), b[:, i].reshape(D)) for i in range(3))
        blocks.append(Block("pre", Attention(q, k, v, f.linear(at + "attn.c_proj", D, D), H, 1 if one_key else H, d_k ** -0.5),
                            FeedForward(f.linear(at + "mlp.c_fc", 100, D), f.linear(at + "mlp.c_proj", D, 100),
                                        ACTIVATIONS["gelu_new"]), n1=f.norm(at + "ln_1", D, 1e-5), n2=f.norm(at + "ln_2", D, 1e-5)))
    return c, f, Model(lambda ids: words[ids] + places[np.arange(ids.shape[-1])], blocks, f.norm("transformer.ln_f", D, 1e-5),
                       logits(words))


def mingpt():
    """minGPT's names are nanoGPT's; its head is its own, its activation gelu_new. No config says so."""
    H = 3
    c = {"n_head": H}
    f = File()
    words, places = f.table("transformer.wte.weight", WORDS, D), f.table("transformer.wpe.weight", 32, D)
    blocks = []
    for n in range(LAYERS):
        at = f"transformer.h.{n}."
        f.make(at + "attn.bias", np.tril(np.ones((1, 1, 32, 32))))
        q, k, v = fused(f.linear(at + "attn.c_attn", 3 * D, D), D, D, D)
        blocks.append(Block("pre", Attention(q, k, v, f.linear(at + "attn.c_proj", D, D), H, H, 16 ** -0.5),
                            FeedForward(f.linear(at + "mlp.c_fc", 4 * D, D), f.linear(at + "mlp.c_proj", D, 4 * D),
                                        ACTIVATIONS["gelu_new"]), n1=f.norm(at + "ln_1", D, 1e-5), n2=f.norm(at + "ln_2", D, 1e-5)))
    return c, f, Model(lambda ids: words[ids] + places[np.arange(ids.shape[-1])], blocks, f.norm("transformer.ln_f", D, 1e-5),
                       own_head(f, "lm_head"))


def falcon(kind):
    """7b: one key, one norm; 40b: groups, two norms; rw: a key a head, ALiBi, one after the other; 11b: groups, one norm."""
    H, d_k = 6, 8
    groups, K = kind in ("40b", "11b"), {"7b": 1, "40b": 2, "rw": 6, "11b": 3}[kind]
    c = said("falcon", "FalconForCausalLM", hidden_size=D, num_attention_heads=H, num_hidden_layers=LAYERS, alibi=kind == "rw",
             bias=kind == "rw", multi_query=kind != "rw", parallel_attn=kind != "rw", new_decoder_architecture=groups,
             layer_norm_epsilon=1e-5, attention_dropout=0.0, hidden_dropout=0.0, apply_residual_connection_post_layernorm=False)
    if groups:
        c["num_kv_heads"] = K
    if kind == "11b":
        c |= {"num_ln_in_parallel_attn": 1, "activation": "gelu", "ffn_hidden_size": 4 * D, "ff_factor": 4, "rope_theta": 500042.0}
    f = File()
    words, biased = f.table("transformer.word_embeddings.weight", WORDS, D), kind == "rw"
    slopes = [2.0 ** -(2 * (i + 1)) for i in range(4)] + [2.0 ** -1, 2.0 ** -3]  # of six heads: four's, then two of eight's
    bias = lambda T: np.array(slopes)[:, None, None] * np.arange(T) * d_k ** -0.5
    rope = None if biased else Rope(frequencies(d_k, c.get("rope_theta", 1e4)))
    blocks = []
    for n in range(LAYERS):
        at = f"transformer.h.{n}."
        name, size = at + "self_attention.query_key_value", (H + 2 * K) * d_k
        both = f.linear(name, size, D, biased)
        b = both.bias if biased else np.zeros(size)
        if groups or biased:
            W, b, g = both.weight.reshape(D, K, -1, d_k), b.reshape(K, -1, d_k), H // K
            q, k, v = (Linear(W[:, :, i].reshape(D, -1), b[:, i].reshape(-1)) for i in (slice(0, g), g, g + 1))
        else:
            q, k, v = fused(both, D, d_k, d_k)
        attention = Attention(q, k, v, f.linear(at + "self_attention.dense", D, D, biased), H, K, d_k ** -0.5, rope=rope,
                              bias=bias if biased else None)
        feed = FeedForward(f.linear(at + "mlp.dense_h_to_4h", 4 * D, D, biased), f.linear(at + "mlp.dense_4h_to_h", D, 4 * D, biased),
                           ACTIVATIONS["gelu"])
        first = f.norm(at + ("ln_attn" if kind == "40b" else "input_layernorm"), D, 1e-5)
        second = {"40b": "ln_mlp", "rw": "post_attention_layernorm"}.get(kind)
        blocks.append(Block("pre" if biased else "parallel", attention, feed, n1=first,
                            n2=f.norm(at + second, D, 1e-5) if second else first))
    return c, f, Model(lambda ids: words[ids], blocks, f.norm("transformer.ln_f", D, 1e-5), logits(words))


def llama_like(c, shape="pre", kind="rms", eps=1e-6, names=("input_layernorm", None, "post_attention_layernorm", None), bias=False,
               norm_bias=False, o_bias=False, mlp_bias=False, gate="gated", rope=None, window=None, head=None, tied=False,
               rows=1.0, adds=1.0, divides=1.0, scale=None, qk=None, ff=100, activation="silu", o_name="o_proj",
               last="norm"):
    """LLaMA's names. `rope` and `window` are asked for each layer; names: of the norms 1 to 4."""
    H, K, d_k = c["num_attention_heads"], c.get("num_key_value_heads", c["num_attention_heads"]), 8
    c |= {"hidden_size": D, "num_hidden_layers": c.get("num_hidden_layers", LAYERS), "intermediate_size": ff, "max_position_embeddings": 64}
    f = File()
    words = f.table("model.embed_tokens.weight", WORDS, D)
    blocks = []
    for n in range(c["num_hidden_layers"]):
        at = f"model.layers.{n}."
        q, k, v = (f.linear(f"{at}self_attn.{x}_proj", N * d_k, D, bias) for x, N in (("q", H), ("k", K), ("v", K)))
        o = f.linear(f"{at}self_attn.{o_name}", D, H * d_k, o_bias)
        norms = [f.norm(at + name, D, eps, kind, norm_bias) if name else (lambda x: x) for name in names]
        q_norm = k_norm = None
        if qk == "heads":  # a layer norm without bias, of each head its own
            q_norm, k_norm = (Norm("layer", eps, f.make(f"{at}self_attn.{x}_norm.weight",
                              1 + 0.3 * RNG.standard_normal((N, d_k)))[:, None]) for x, N in (("q", H), ("k", K)))
        elif qk == "head":
            q_norm, k_norm = (f.norm(f"{at}self_attn.{x}_norm", d_k, eps, "rms") for x in "qk")
        elif qk == "width":  # of all heads at once
            q_norm, k_norm = (of_width(f.norm(f"{at}self_attn.{x}_norm", N * d_k, eps, "rms")) for x, N in (("q", H), ("k", K)))
        if gate == "gated":
            feed = FeedForward(f.linear(at + "mlp.gate_proj", ff, D, mlp_bias), f.linear(at + "mlp.down_proj", D, ff, mlp_bias),
                               ACTIVATIONS[activation], f.linear(at + "mlp.up_proj", ff, D, mlp_bias))
        elif gate == "both":
            pre, up = fused(f.linear(at + "mlp.gate_up_proj", 2 * ff, D, False), ff, ff)
            feed = FeedForward(pre, f.linear(at + "mlp.down_proj", D, ff, False), ACTIVATIONS[activation], up)
        else:
            feed = FeedForward(f.linear(f"{at}mlp.{gate[0]}", ff, D, mlp_bias), f.linear(f"{at}mlp.{gate[1]}", D, ff, mlp_bias),
                               ACTIVATIONS[activation])
        if adds != 1:
            norms[2:] = [norms[2], lambda x: adds * x]
            norms[1:3] = [lambda x: adds * x, norms[2]]
        if shape in ("pre", "parallel") and adds == 1:
            norms[1] = norms[2] if names[2] else norms[0]
        if shape == "inside":
            norms = [norms[1], norms[3]] + norms[2:]
        attention = Attention(q, k, v, o, H, K, scale or d_k ** -0.5, rope=rope(n) if rope else None,
                              window=window(n) if window else None, q_norm=q_norm, k_norm=k_norm)
        blocks.append(Block("sandwich" if adds != 1 else shape, attention, feed, *norms))
    final = f.norm("model." + last, D, eps, kind, norm_bias)
    head = logits(words if tied else f.table("lm_head.weight", WORDS, D), 1 / divides,
                  f.vector("lm_head.bias", WORDS) if head == "bias" else 0.0)
    return c, f, Model(lambda ids: rows * words[ids], blocks, final, head)


half = lambda base, dims=8: lambda n: Rope(frequencies(dims, base))
pairs = lambda base, dims=8: lambda n: Rope(frequencies(dims, base), adjacent=True)
FEW = {"num_attention_heads": 6, "num_key_value_heads": 2}


def cohere(qk):
    c = said("cohere", "CohereForCausalLM", **FEW, layer_norm_eps=1e-5, logit_scale=0.25, rope_theta=75000.0, use_qk_norm=bool(qk),
             hidden_act="silu", attention_bias=False)
    return llama_like(c, "parallel", "layer", 1e-5, ("input_layernorm", None, None, None), rope=pairs(75000.0), tied=True,
                      divides=4, qk=qk)


def cohere2():
    c = said("cohere2", "Cohere2ForCausalLM", **FEW, num_hidden_layers=5, layer_norm_eps=1e-5, logit_scale=0.25, rope_theta=5e4,
             sliding_window=3, sliding_window_pattern=4, head_dim=8, hidden_act="silu", attention_bias=False)
    sliding = lambda n: n % 4 != 3
    return llama_like(c, "parallel", "layer", 1e-5, ("input_layernorm", None, None, None), tied=True, divides=4,
                      rope=lambda n: pairs(5e4)(n) if sliding(n) else None, window=lambda n: 3 if sliding(n) else None)


def granite():
    c = said("granite", "GraniteForCausalLM", **FEW, rms_norm_eps=1e-5, embedding_multiplier=6.0, attention_multiplier=0.25,
             residual_multiplier=0.22, logits_scaling=4.0, hidden_act="silu", attention_bias=False, mlp_bias=False,
             tie_word_embeddings=True, rope_theta=10000.0, rope_scaling=None)
    return llama_like(c, eps=1e-5, rope=half(1e4), tied=True, rows=6, adds=0.22, divides=4, scale=0.25)


def stablelm(parallel):
    c = said("stablelm", "StableLmForCausalLM", num_attention_heads=6, num_key_value_heads=6, layer_norm_eps=1e-5, hidden_act="silu",
             partial_rotary_factor=0.25, use_qkv_bias=True, qk_layernorm=False, use_parallel_residual=parallel, rope_theta=10000,
             tie_word_embeddings=False)
    return llama_like(c, "parallel" if parallel else "pre", "layer", 1e-5,
                      ("input_layernorm", None, None if parallel else "post_attention_layernorm", None), bias=True, norm_bias=True,
                      rope=half(1e4, 2))


def starcoder2():
    c = said("starcoder2", "Starcoder2ForCausalLM", **FEW, norm_epsilon=1e-5, hidden_act="gelu_pytorch_tanh", mlp_type="default",
             norm_type="layer_norm", use_bias=True, sliding_window=4, rope_theta=999999.4420358813)
    return llama_like(c, "pre", "layer", 1e-5, bias=True, norm_bias=True, o_bias=True, mlp_bias=True, gate=("c_fc", "c_proj"),
                      rope=half(999999.4420358813), window=lambda n: 4, tied=True, activation="gelu_new")


def phi():
    c = said("phi", "PhiForCausalLM", num_attention_heads=6, num_key_value_heads=6, layer_norm_eps=1e-5, hidden_act="gelu_new",
             partial_rotary_factor=0.5, qk_layernorm=False, rope_theta=10000.0, rope_scaling=None, tie_word_embeddings=False)
    return llama_like(c, "parallel", "layer", 1e-5, ("input_layernorm", None, None, None), bias=True, norm_bias=True, o_bias=True,
                      mlp_bias=True, gate=("fc1", "fc2"), rope=half(1e4, 4), head="bias", activation="gelu_new", o_name="dense",
                      last="final_layernorm")


def olmo():
    c = said("olmo", "OlmoForCausalLM", **FEW, hidden_act="silu", attention_bias=False, clip_qkv=None, rope_theta=10000.0,
             rope_scaling=None, tie_word_embeddings=False)
    c, f, model = llama_like(c, "pre", "layer", 1e-5, (None, None, None, None), rope=half(1e4))
    bare = Norm("layer", 1e-5)
    for name in ("model.norm.weight",):
        del f.tensors[name]
    for block in model.blocks:
        block.n1 = block.n2 = bare
    model.final = bare
    return c, f, model


def olmo2():
    c = said("olmo2", "Olmo2ForCausalLM", **FEW, rms_norm_eps=1e-6, hidden_act="silu", attention_bias=False, rope_theta=500000,
             tie_word_embeddings=False)
    return llama_like(c, "inside", names=(None, "post_attention_layernorm", None, "post_feedforward_layernorm"), rope=half(5e5),
                      qk="width")


def exaone4():
    c = said("exaone4", "Exaone4ForCausalLM", **FEW, num_hidden_layers=5, rms_norm_eps=1e-5, hidden_act="silu", head_dim=8,
             rope_theta=1000000, rope_scaling=None, sliding_window=4, sliding_window_pattern=4, tie_word_embeddings=False,
             layer_types=["sliding_attention"] * 3 + ["full_attention", "sliding_attention"])
    sliding = lambda n: n != 3
    return llama_like(c, "inside", eps=1e-5, names=(None, "post_attention_layernorm", None, "post_feedforward_layernorm"),
                      rope=lambda n: half(1e6)(n) if sliding(n) else None, window=lambda n: 4 if sliding(n) else None, qk="head")


def smollm3():
    c = said("smollm3", "SmolLM3ForCausalLM", **FEW, num_hidden_layers=5, rms_norm_eps=1e-6, hidden_act="silu", attention_bias=False,
             mlp_bias=False, rope_theta=5000000.0, no_rope_layers=[1, 1, 1, 0, 1], no_rope_layer_interval=4, use_sliding_window=False,
             sliding_window=None, layer_types=["full_attention"] * 5)
    return llama_like(c, rope=lambda n: None if n == 3 else half(5e6)(n), tied=True)


def glm(four):
    c = said("glm4" if four else "glm", "Glm4ForCausalLM" if four else "GlmForCausalLM", **FEW, rms_norm_eps=1e-5, hidden_act="silu",
             attention_bias=True, head_dim=8, partial_rotary_factor=0.5, rope_theta=10000.0, tie_word_embeddings=False)
    names = ("input_layernorm", "post_self_attn_layernorm", "post_attention_layernorm", "post_mlp_layernorm") if four else \
            ("input_layernorm", None, "post_attention_layernorm", None)
    return llama_like(c, "sandwich" if four else "pre", eps=1e-5, names=names, bias=True, gate="both", rope=pairs(1e4, 4))


def ernie():
    c = said("ernie4_5", "Ernie4_5ForCausalLM", **FEW, rms_norm_eps=1e-5, hidden_act="silu", use_bias=False, head_dim=8,
             rope_theta=500000.0, tie_word_embeddings=True)
    return llama_like(c, eps=1e-5, rope=pairs(5e5), tied=True)


def distance_buckets(T, count, far):
    """T5's, to both sides (Raffel et al. 2020): half of the buckets for each side, of these half exact."""
    to = np.arange(T)[None] - np.arange(T)[:, None]
    side, exact = count // 2, count // 4
    with np.errstate(divide="ignore"):
        rough = exact + np.floor(np.log(abs(to) / exact) / math.log(far / exact) * (side - exact))
    return side * (to > 0) + np.where(abs(to) < exact, abs(to), np.minimum(rough, side - 1)).astype(int)


def t5(gated, shared, kind="t5"):
    """T5's encoder as it is saved alone; mT5 and ProtT5's kin are so, too. Every block of UMT5 has a table of its own."""
    H, d_k, ff, count, far = 5, 8, 60, 8, 9
    c = said(kind, {"t5": "T5", "mt5": "MT5", "umt5": "UMT5"}[kind] + "EncoderModel", d_model=D, d_kv=d_k, d_ff=ff, num_heads=H, num_layers=LAYERS, num_decoder_layers=LAYERS,
             relative_attention_num_buckets=count, relative_attention_max_distance=far, layer_norm_epsilon=1e-6,
             feed_forward_proj="gated-gelu" if gated else "relu", is_encoder_decoder=True, dropout_rate=0.1, n_positions=64,
             decoder_start_token_id=0, pad_token_id=0, initializer_factor=1.0, output_past=True)
    f = File()
    words = f.table("shared.weight" if shared else "encoder.embed_tokens.weight", WORDS, D)
    table = f.table("encoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight", count, H)
    bias_of = lambda table: lambda T: np.moveaxis(table[distance_buckets(T, count, far)], -1, 0)
    blocks = []
    for n in range(LAYERS):
        at, ffn = f"encoder.block.{n}.layer.", f"encoder.block.{n}.layer.1.DenseReluDense."
        if kind == "umt5" and n > 0:
            table = f.table(at + "0.SelfAttention.relative_attention_bias.weight", count, H)
        q, k, v = (f.linear(f"{at}0.SelfAttention.{x}", H * d_k, D, False) for x in "qkv")
        pre = f.linear(ffn + ("wi_0" if gated else "wi"), ff, D, False)
        feed = FeedForward(pre, f.linear(ffn + "wo", D, ff, False), ACTIVATIONS["gelu_new" if gated else "relu"],
                           f.linear(ffn + "wi_1", ff, D, False) if gated else None)
        blocks.append(Block("pre", Attention(q, k, v, f.linear(at + "0.SelfAttention.o", D, H * d_k, False), H, H, 1.0, causal=False,
                                             bias=bias_of(table)), feed,
                            n1=f.norm(at + "0.layer_norm", D, 1e-6, "rms"), n2=f.norm(at + "1.layer_norm", D, 1e-6, "rms")))
    return c, f, Model(lambda ids: words[ids], blocks, f.norm("encoder.final_layer_norm", D, 1e-6, "rms"), causal=False)


MODELS = {"gptj": gptj, "codegen": codegen, "gpt-neo": gpt_neo, "starcoder": lambda: bigcode(True),
          "gpt-bigcode-heads": lambda: bigcode(False), "mingpt": mingpt, "falcon-7b": lambda: falcon("7b"),
          "falcon-40b": lambda: falcon("40b"), "falcon-rw": lambda: falcon("rw"), "falcon-11b": lambda: falcon("11b"),
          "cohere": lambda: cohere(None), "cohere-plus": lambda: cohere("heads"), "cohere2": cohere2, "granite": granite,
          "stablelm": lambda: stablelm(False), "stablelm-parallel": lambda: stablelm(True), "starcoder2": starcoder2, "phi": phi,
          "olmo": olmo, "olmo2": olmo2, "exaone4": exaone4, "smollm3": smollm3, "glm": lambda: glm(False), "glm4": lambda: glm(True),
          "ernie": ernie, "t5": lambda: t5(False, False), "t5-gated": lambda: t5(True, True)}


if __name__ == "__main__":
    write_models(MODELS)
