#!/usr/bin/env python3
"""Families and forms of files that Transformers 5 added: a checkpoint each, and what it computes.

    /usr/bin/python3 tests/models/later_families.py OUTDIR

OUTDIR/NAME holds config.json, model.safetensors and expected.npz. Written from the models' papers and
what Transformers 5.17 was measured to compute, not from lib/.
"""

import numpy as np

from families import frequencies, scaled_rope, yarn_factor, yarn_frequencies
from forward import ACTIVATIONS, Attention, Block, FeedForward, Head, Linear, Model, Norm, Rope
from more_text_families import D, FEW, falcon, gptj, half, llama_like, logits, pairs, phi, said, t5
from text_families import LAYERS, WORDS, File, esm, fused, modernbert, write_models

NEW = {"transformers_version": "5.17.0", "head_dim": 8, "hidden_act": "silu", "attention_bias": False, "mlp_bias": False,
       "tie_word_embeddings": False}
default = lambda base: {"rope_theta": base, "rope_type": "default"}


def llama_kin(name, cls, eps=1e-6, base=1e4, keys={}, **ways):
    key = {"rms": "rms_norm_eps"}.get(ways.get("kind", "rms"), "layer_norm_eps")
    c = said(name, cls + "ForCausalLM", **FEW, **(NEW | {key: eps, "rope_parameters": default(base)} | keys))
    return llama_like(c, eps=eps, **({"rope": half(base)} | ways))


def seed_oss():
    return llama_kin("seed_oss", "SeedOss", keys={"attention_bias": True, "attention_out_bias": False, "residual_dropout": 0.1}, bias=True)


def arcee():
    return llama_kin("arcee", "Arcee", 1e-5, keys={"hidden_act": "relu2"}, gate=("up_proj", "down_proj"), activation="relu2")


def jais2():
    return llama_kin("jais2", "Jais2", 1e-5, keys={"hidden_act": "relu2", "attention_bias": True, "mlp_bias": True},
                     gate=("up_proj", "down_proj"), activation="relu2", kind="layer", bias=True, o_bias=True, mlp_bias=True,
                     norm_bias=True)


def nemotron():
    c = said("nemotron", "NemotronForCausalLM", **FEW, **NEW | {"hidden_act": "relu2"}, norm_eps=1e-5, partial_rotary_factor=0.5,
             rope_parameters=default(1e4) | {"partial_rotary_factor": 0.5})
    c, f, model = llama_like(c, kind="layer", eps=1e-5, norm_bias=True, gate=("up_proj", "down_proj"), activation="relu2",
                             rope=half(1e4, 4))
    for norm in [model.final] + [n for b in model.blocks for n in (b.n1, b.n2)]:
        norm.weight = norm.weight + 1  # the file holds w
    return c, f, model


def cwm():
    scaling = {"factor": 16.0, "high_freq_factor": 4.0, "low_freq_factor": 1.0, "original_max_position_embeddings": 64,
               "rope_theta": 1e6, "rope_type": "llama3"}
    kinds = ["full_attention", "sliding_attention", "sliding_attention", "sliding_attention", "full_attention"]
    return llama_kin("cwm", "Cwm", 1e-5, keys={"rope_parameters": scaling, "sliding_window": 4, "layer_types": kinds,
                                               "num_hidden_layers": 5},
                     rope=lambda n: scaled_rope({"max_position_embeddings": 64}, 8, 1e6, scaling),
                     window=lambda n: 4 if n % 4 else None)


def ministral3():
    scaling = {"beta_fast": 32.0, "beta_slow": 1.0, "factor": 16.0, "llama_4_scaling_beta": 0.1, "max_position_embeddings": 64,
               "mscale": 1.0, "mscale_all_dim": 1.0, "original_max_position_embeddings": 64, "rope_theta": 1e6, "rope_type": "yarn",
               "type": "yarn"}
    return llama_kin("ministral3", "Ministral3", 1e-5, keys={"rope_parameters": scaling, "sliding_window": None},
                     rope=lambda n: scaled_rope({"max_position_embeddings": 64}, 8, 1e6, scaling))


def helium():
    return llama_kin("helium", "Helium", 1e-8, 1e5, rope=pairs(1e5))


def hyperclovax(post, adds):
    c, f, model = llama_kin("hyperclovax", "HyperCLOVAX", keys={
        "attention_multiplier": 0.25, "embedding_multiplier": 6.0, "logits_scaling": 0.5, "residual_multiplier": adds,
        "use_post_norm": post}, rows=6, divides=2, scale=0.25, **({"names": (
            "input_layernorm", "post_norm1", "post_attention_layernorm", "post_norm2"), "shape": "sandwich"} if post else {"adds": adds}))
    for block in model.blocks if post else []:
        for norm in (block.n2, block.n4):
            norm.weight = norm.weight * adds
    return c, f, model


def ministral():
    return llama_kin("ministral", "Ministral", keys={"sliding_window": 3, "rms_norm_eps": 1e-5}, eps=1e-5, window=lambda n: 3)


def refined_web(kind, name):
    """Falcon under its first name, with BLOOM's keys."""
    c, f, model = falcon(kind)
    renamed = {"num_attention_heads": "n_head", "num_hidden_layers": "n_layer", "num_kv_heads": "n_head_kv"}
    c = {renamed.get(key, key): value for key, value in c.items() if key != "new_decoder_architecture"}
    return c | {"model_type": name, "architectures": ["RWForCausalLM"], "parallel_attn": True}, f, model


def eurobert():
    c, f, model = llama_kin("eurobert", "EuroBert", 1e-5, keys={"architectures": ["EuroBertForMaskedLM"], "classifier_pooling": "late"})
    for block in model.blocks:
        block.attention.causal = False
    model.causal = False
    return c, f, model


def olmo3():
    yarn = {"rope_type": "yarn", "factor": 8.0, "original_max_position_embeddings": 64, "rope_theta": 5e5, "attention_factor": 1.2}
    linear = {"rope_type": "linear", "factor": 2.0, "rope_theta": 5000.0}
    full = Rope(yarn_frequencies(frequencies(8, 5e5), 5e5, yarn, 64), factor=1.2)
    return llama_kin("olmo3", "Olmo3", 1e-5, keys={
        "num_hidden_layers": 4, "layer_types": ["sliding_attention", "full_attention"] * 2, "sliding_window": 3,
        "rope_parameters": {"full_attention": yarn, "sliding_attention": linear}},
        shape="inside", names=(None, "post_attention_layernorm", None, "post_feedforward_layernorm"), qk="width",
        rope=lambda n: full if n % 2 else Rope(frequencies(8, 5000.0) / 2), window=lambda n: None if n % 2 else 3)


def modernbert_by_layer_type():
    c, f, model = modernbert()
    for key in ("global_rope_theta", "local_rope_theta", "global_attn_every_n_layers"):
        del c[key]
    c["layer_types"] = ["full_attention", "sliding_attention", "sliding_attention", "full_attention", "sliding_attention"]
    c["rope_parameters"] = {"full_attention": {"rope_theta": 9e4, "rope_type": "linear", "factor": 4.0},
                            "sliding_attention": default(3000.0)}
    for block, kind in zip(model.blocks, c["layer_types"]):
        block.attention.rope = Rope(frequencies(8, 9e4) / 4 if kind == "full_attention" else frequencies(8, 3000.0))
    return c, f, model


def with_bias(made):
    """Tied, and with a bias beside the embedding."""
    c, f, model = made
    del f.tensors["lm_head.weight"]
    c["tie_word_embeddings"] = True
    words = f.tensors["transformer.wte.weight" if "n_embd" in c else "model.embed_tokens.weight"][1]
    model.head = logits(words, bias=f.tensors["lm_head.bias"][1])
    return c, f, model


def esm_of_5():
    """Names as Transformers 5.17 writes them."""
    c, f, model = esm(True, True)
    for name in list(f.tensors):
        if "LayerNorm." in name:
            f.tensors[name.replace(".weight", ".gamma").replace(".bias", ".beta")] = f.tensors.pop(name)
        elif "inv_freq" in name:
            del f.tensors[name]
    f.make("esm.encoder.layer.*.attention.self.rotary_embeddings.inv_freq", frequencies(8, 1e4))
    return c, f, model


# BERT's kin ----------------------------------------------------------------------------------

BERT_HEAD = {"dense": "cls.predictions.transform.dense", "norm": "cls.predictions.transform.LayerNorm",
             "decoder": "cls.predictions.decoder", "bias": "cls.predictions.bias"}
ROBERTA_HEAD = {"dense": "lm_head.dense", "norm": "lm_head.layer_norm", "decoder": "lm_head.decoder", "bias": "lm_head.bias"}
POST = ("attention.output.LayerNorm", "output.LayerNorm")


def bert_kin(name, cls, base, head, norms=POST, embedding="embeddings.LayerNorm", last=None, pad=None, places=True, rope=None,
             own=False, narrow=None, wide=None, keys={}):
    """norms: the two of a layer; last: behind the layers of those that normalise before. own: a decoder and a
    bias of its own, beside the bias of the others. narrow, wide: the tables' and the head's widths."""
    d, H, ff, eps = 40, 5, 36, 1e-5
    c = {"architectures": [cls + "ForMaskedLM"], "model_type": name, "hidden_act": "gelu", "hidden_size": d, "intermediate_size": ff,
         "num_attention_heads": H, "num_hidden_layers": LAYERS, "layer_norm_eps": eps, "max_position_embeddings": 24,
         "type_vocab_size": 2, "vocab_size": WORDS, "pad_token_id": pad or 0, "tie_word_embeddings": not own,
         "is_decoder": False, "add_cross_attention": False, "transformers_version": "5.17.0"} | keys
    f = File()
    at, E = base + "embeddings.", narrow or d
    words, types = f.table(at + "word_embeddings.weight", WORDS, E), f.table(at + "token_type_embeddings.weight", 2, E)
    rows = f.table(at + "position_embeddings.weight", 24, E) if places else np.zeros((24, E))
    norm = f.norm(base + embedding, E, eps) if embedding else lambda x: x
    widen = f.linear(base + "encoder.embedding_hidden_mapping_in", d, E) if narrow else lambda x: x
    blocks = []
    for n in range(LAYERS):
        at = f"{base}encoder.layer.{n}."
        q, k, v = (f.linear(f"{at}attention.self.{x}", d, d) for x in ("query", "key", "value"))
        attention = Attention(q, k, v, f.linear(at + "attention.output.dense", d, d), H, H, (d / H) ** -0.5, causal=False, rope=rope)
        feed = FeedForward(f.linear(at + "intermediate.dense", ff, d), f.linear(at + "output.dense", d, ff), ACTIVATIONS["gelu"])
        n1, n2 = (f.norm(at + x, d, eps) for x in norms)
        blocks.append(Block("pre" if last else "post", attention, feed, n1=n1, n2=n2))
    final = f.norm(base + last, d, eps) if last else None
    dense, after = f.linear(head["dense"], wide or d, d), f.norm(head["norm"], wide or d, eps)
    if not wide:
        bias = f.vector(head["bias"], WORDS)
    if own:
        words_out, bias = f.table(head["decoder"] + ".weight", WORDS, wide or d), f.vector(head["decoder"] + ".bias", WORDS)
    first = 0 if pad is None else pad + 1
    embed = lambda ids: widen(norm(words[ids] + rows[first + np.arange(ids.shape[-1])] + types[0]))
    transform = lambda x: after(ACTIVATIONS["gelu"](dense(x)))
    return c, f, Model(embed, blocks, final, Head(Linear((words_out if own else words).T, bias), transform), causal=False)


def rembert():
    head = BERT_HEAD | {"dense": "cls.predictions.dense", "norm": "cls.predictions.LayerNorm"}
    return bert_kin("rembert", "RemBert", "rembert.", head, own=True, narrow=18, wide=28,
                    keys={"input_embedding_size": 18, "output_embedding_size": 28})


def roformer():
    c, f, model = bert_kin("roformer", "RoFormer", "roformer.", BERT_HEAD, places=False, rope=Rope(frequencies(8, 1e4), adjacent=True),
                           keys={"embedding_size": 40, "rotary_value": False})
    angle = np.arange(24)[:, None] * frequencies(8, 1e4)
    f.make("roformer.encoder.embed_positions.weight", np.concatenate([np.sin(angle), np.cos(angle)], -1))
    return c, f, model


# GPT's and GPT-NeoX' kin ---------------------------------------------------------------------

def neox_kin(persimmon):
    H, d_k, ff = 6, 8, 4 * D
    keys = {"qk_layernorm": True, "hidden_act": "relu2", "intermediate_size": ff, "tie_word_embeddings": False} if persimmon else \
           {"intermediate_multiple_size": 4, "hidden_act": "gelu", "tie_word_embeddings": True}
    part = 0.5 if persimmon else 1.0
    c = said("persimmon" if persimmon else "gpt_neox_japanese", "PersimmonForCausalLM" if persimmon else "GPTNeoXJapaneseForCausalLM",
             hidden_size=D, num_attention_heads=H, num_hidden_layers=LAYERS, layer_norm_eps=1e-5, max_position_embeddings=64,
             rope_parameters=default(1e4) | {"partial_rotary_factor": part}, **keys)
    f = File()
    base, inner, bias = ("model.", "self_attn.", True) if persimmon else ("gpt_neox_japanese.", "attention.", False)
    words = f.table(base + ("embed_tokens" if persimmon else "embed_in") + ".weight", WORDS, D)
    blocks = []
    for n in range(LAYERS):
        at = f"{base}layers.{n}."
        both = f.linear(at + inner + "query_key_value", 3 * D, D, bias)
        of_heads = np.arange(3 * D).reshape(H, 3, d_k).swapaxes(0, 1).reshape(-1)  # all queries, keys, values
        q, k, v = fused(Linear(both.weight[:, of_heads], both.bias[of_heads] if bias else 0.0), D, D, D)
        o = f.linear(at + inner + "dense", D, D, bias)
        if not bias and n == LAYERS - 1:
            o.bias = f.vector(at + inner + "dense_bias", D)
        q_norm, k_norm = (f.norm(f"{at}{inner}{x}_layernorm", d_k, 1e-5) for x in "qk") if persimmon else (None, None)
        blocks.append(Block("pre", Attention(q, k, v, o, H, H, d_k ** -0.5, rope=Rope(frequencies(int(part * d_k), 1e4)), q_norm=q_norm,
                                             k_norm=k_norm),
                            FeedForward(f.linear(at + "mlp.dense_h_to_4h", ff, D, bias), f.linear(at + "mlp.dense_4h_to_h", D, ff, bias),
                                        ACTIVATIONS[keys["hidden_act"]]),
                            n1=f.norm(at + "input_layernorm", D, 1e-5), n2=f.norm(at + "post_attention_layernorm", D, 1e-5)))
    final = f.norm(base + ("final_layernorm" if persimmon else "final_layer_norm"), D, 1e-5)
    return c, f, Model(lambda ids: words[ids], blocks, final, logits(f.table("lm_head.weight", WORDS, D) if persimmon else words))


def gpt1():
    """afn gelu is the one by tanh, as OpenAI wrote it."""
    H, ff = 6, 4 * D
    c = said("openai-gpt", "OpenAIGPTLMHeadModel", afn="gelu", n_embd=D, n_head=H, n_layer=LAYERS, n_positions=32,
             layer_norm_epsilon=1e-5, tie_word_embeddings=True, attn_pdrop=0.1, embd_pdrop=0.1, resid_pdrop=0.1)
    f = File()
    words, places = f.table("transformer.tokens_embed.weight", WORDS, D), f.table("transformer.positions_embed.weight", 32, D)

    def turned(name, out, in_):  # (in, out)
        linear = f.linear(name, out, in_)
        f.make(name + ".weight", linear.weight)
        return linear

    blocks = []
    for n in range(LAYERS):
        at = f"transformer.h.{n}."
        q, k, v = fused(turned(at + "attn.c_attn", 3 * D, D), D, D, D)
        blocks.append(Block("post", Attention(q, k, v, turned(at + "attn.c_proj", D, D), H, H, 8 ** -0.5),
                            FeedForward(turned(at + "mlp.c_fc", ff, D), turned(at + "mlp.c_proj", D, ff), ACTIVATIONS["gelu_new"]),
                            n1=f.norm(at + "ln_1", D, 1e-5), n2=f.norm(at + "ln_2", D, 1e-5)))
    return c, f, Model(lambda ids: words[ids] + places[np.arange(ids.shape[-1])], blocks, head=logits(words))


def biogpt():
    """Its norms have PyTorch's own epsilon: none of its modules reads the config's."""
    H, ff, eps = 6, 52, 1e-5
    c = said("biogpt", "BioGptForCausalLM", hidden_size=D, num_attention_heads=H, num_hidden_layers=LAYERS, intermediate_size=ff,
             hidden_act="gelu", layer_norm_eps=1e-12, max_position_embeddings=32, scale_embedding=True, tie_word_embeddings=True,
             pad_token_id=1)
    f = File()
    words, places = f.table("biogpt.embed_tokens.weight", WORDS, D), f.table("biogpt.embed_positions.weight", 34, D)
    blocks = []
    for n in range(LAYERS):
        at = f"biogpt.layers.{n}."
        q, k, v, o = (f.linear(f"{at}self_attn.{x}_proj", D, D) for x in ("q", "k", "v", "out"))
        blocks.append(Block("pre", Attention(q, k, v, o, H, H, 8 ** -0.5),
                            FeedForward(f.linear(at + "fc1", ff, D), f.linear(at + "fc2", D, ff), ACTIVATIONS["gelu"]),
                            n1=f.norm(at + "self_attn_layer_norm", D, eps), n2=f.norm(at + "final_layer_norm", D, eps)))
    return c, f, Model(lambda ids: D ** 0.5 * words[ids] + places[2 + np.arange(ids.shape[-1])], blocks,
                       f.norm("biogpt.layer_norm", D, eps), logits(words))


PRE = {"megatron-bert": (("attention.ln", "ln"), None, "encoder.ln"),
       "xlm-roberta-xl": (("attention.self_attn_layer_norm", "LayerNorm"), None, "encoder.LayerNorm"),
       "roberta-prelayernorm": (("attention.LayerNorm", "intermediate.LayerNorm"), "embeddings.LayerNorm", "LayerNorm")}

MODELS = {"seed_oss": seed_oss, "arcee": arcee, "jais2": jais2, "nemotron": nemotron, "cwm": cwm, "ministral3": ministral3,
          "helium": helium, "hyperclovax": lambda: hyperclovax(True, 0.3), "hyperclovax-bare": lambda: hyperclovax(False, 0.3),
          "ministral": ministral, "refined-web": lambda: refined_web("40b", "RefinedWeb"),
          "refined-web-model": lambda: refined_web("7b", "RefinedWebModel"), "mt5": lambda: t5(True, True, "mt5"),
          "umt5": lambda: t5(True, True, "umt5"), "eurobert": eurobert, "olmo3": olmo3, "modernbert-by-layer-type": modernbert_by_layer_type,
          "gptj-tied": lambda: with_bias(gptj()), "phi-tied": lambda: with_bias(phi()), "esm-of-5": esm_of_5,
          "bert-own-decoder": lambda: bert_kin("bert", "Bert", "bert.", BERT_HEAD, own=True),
          "roberta-own-decoder": lambda: bert_kin("roberta", "Roberta", "roberta.", ROBERTA_HEAD, pad=1, own=True),
          "xlm-roberta": lambda: bert_kin("xlm-roberta", "XLMRoberta", "roberta.", ROBERTA_HEAD, pad=1),
          "camembert": lambda: bert_kin("camembert", "Camembert", "roberta.", ROBERTA_HEAD, pad=1),
          "data2vec-text": lambda: bert_kin("data2vec-text", "Data2VecText", "data2vec_text.", ROBERTA_HEAD, pad=1),
          "ernie-bert": lambda: bert_kin("ernie", "Ernie", "ernie.", BERT_HEAD, keys={"use_task_id": False, "task_type_vocab_size": 3}),
          "megatron-bert": lambda: bert_kin("megatron-bert", "MegatronBert", "bert.", BERT_HEAD, *PRE["megatron-bert"]),
          "xlm-roberta-xl": lambda: bert_kin("xlm-roberta-xl", "XLMRobertaXL", "roberta.", ROBERTA_HEAD, *PRE["xlm-roberta-xl"], pad=1),
          "roberta-prelayernorm": lambda: bert_kin("roberta-prelayernorm", "RobertaPreLayerNorm", "roberta_prelayernorm.", ROBERTA_HEAD,
                                                   *PRE["roberta-prelayernorm"], pad=1),
          "rembert": rembert, "roformer": roformer, "gpt_neox_japanese": lambda: neox_kin(False), "persimmon": lambda: neox_kin(True),
          "openai-gpt": gpt1, "biogpt": biogpt}


if __name__ == "__main__":
    write_models(MODELS)
