#!/usr/bin/env python3
"""Families beside those of families.py whose texts are run: a checkpoint each, and what it computes.

    /usr/bin/python3 tests/models/text_families.py OUTDIR

OUTDIR/NAME holds config.json, model.safetensors and expected.npz. Written from the models' papers and
what Transformers is known to do, not from lib/.
"""
import os
import sys

import numpy as np

from families import frequencies
from forward import ACTIVATIONS, Attention, Block, FeedForward, Head, Linear, Model, Norm, Rope, run
from write import write_folder

RNG = np.random.default_rng(31)
LAYERS, WORDS, LENGTH = 3, 61, 11


class File:
    """Tensors as float32 holds them, made when they are first named."""

    def __init__(self):
        self.tensors = {}

    def make(self, name, value):
        self.tensors[name] = ("F32", np.asarray(value).astype(np.float32).astype(np.float64))
        return self.tensors[name][1]

    def table(self, name, *shape):
        return self.make(name, 0.7 * RNG.standard_normal(shape))

    def vector(self, name, n):
        return self.make(name, 0.3 * RNG.standard_normal(n))

    def linear(self, name, out, in_, bias=True):
        W = self.make(name + ".weight", 1.4 * RNG.standard_normal((out, in_)) / in_ ** 0.5)
        return Linear(W.T, self.vector(name + ".bias", out) if bias else 0.0)

    def norm(self, name, d, eps, kind="layer", bias=True):
        w = self.make(name + ".weight", 1 + 0.3 * RNG.standard_normal(d))
        return Norm(kind, eps, w, self.vector(name + ".bias", d) if kind == "layer" and bias else 0.0)


def fused(both, *counts):
    """The maps that lie side by side in the outputs of one."""
    ends = np.cumsum(counts)
    bias = both.bias if isinstance(both.bias, np.ndarray) else np.zeros(ends[-1])
    return [Linear(both.weight[:, e - n:e], bias[e - n:e]) for n, e in zip(counts, ends)]


def masked_head(f, dense, norm, decoder, bias, width, eps):
    """Dense, GELU, norm, then the table of tokens and a bias."""
    dense, norm = f.linear(dense, decoder.shape[1], width), f.norm(norm, decoder.shape[1], eps)
    return Head(Linear(decoder.T, f.vector(bias, len(decoder))), lambda x: norm(ACTIVATIONS["gelu"](dense(x))))


def opt(before, narrow):
    c = {"architectures": ["OPTForCausalLM"], "model_type": "opt", "activation_function": "relu", "hidden_size": 40,
         "ffn_dim": 36, "num_attention_heads": 5, "num_hidden_layers": LAYERS, "max_position_embeddings": 24,
         "vocab_size": WORDS, "do_layer_norm_before": before, "word_embed_proj_dim": narrow or 40, "enable_bias": True,
         "layer_norm_elementwise_affine": True, "pad_token_id": 1, "bos_token_id": 2, "_remove_final_layer_norm": False}
    d, f = 40, File()
    words = f.table("model.decoder.embed_tokens.weight", WORDS, narrow or d)
    places = f.table("model.decoder.embed_positions.weight", 26, d)  # the first two are of no token
    widen = f.linear("model.decoder.project_in", d, narrow, False) if narrow else lambda x: x
    narrower = f.linear("model.decoder.project_out", narrow, d, False) if narrow else lambda x: x
    blocks = []
    for n in range(LAYERS):
        at = f"model.decoder.layers.{n}."
        q, k, v, o = (f.linear(f"{at}self_attn.{x}_proj", d, d) for x in ("q", "k", "v", "out"))
        n1, n2 = f.norm(at + "self_attn_layer_norm", d, 1e-5), f.norm(at + "final_layer_norm", d, 1e-5)
        blocks.append(Block("pre" if before else "post", Attention(q, k, v, o, 5, 5, 8 ** -0.5),
                            FeedForward(f.linear(at + "fc1", 36, d), f.linear(at + "fc2", d, 36), ACTIVATIONS["relu"]),
                            n1=n1, n2=n2))
    final = f.norm("model.decoder.final_layer_norm", d, 1e-5) if before else None
    embed = lambda ids: widen(words[ids]) + places[2 + np.arange(ids.shape[-1])]
    return c, f, Model(embed, blocks, final, Head(Linear(words.T), narrower))


def electra(generator):
    d, E, H, eps = 30, 18, 5, 1e-12
    c = {"architectures": ["ElectraForMaskedLM" if generator else "ElectraForPreTraining"], "model_type": "electra",
         "hidden_act": "gelu", "hidden_size": d, "embedding_size": E, "intermediate_size": 44, "num_attention_heads": H,
         "num_hidden_layers": LAYERS, "layer_norm_eps": eps, "max_position_embeddings": 24, "type_vocab_size": 2,
         "vocab_size": WORDS, "position_embedding_type": "absolute", "pad_token_id": 0}
    f = File()
    at = "electra.embeddings."
    words, places = f.table(at + "word_embeddings.weight", WORDS, E), f.table(at + "position_embeddings.weight", 24, E)
    types, norm = f.table(at + "token_type_embeddings.weight", 2, E), f.norm(at + "LayerNorm", E, eps)
    widen = f.linear("electra.embeddings_project", d, E)
    blocks = [bert_block(f, f"electra.encoder.layer.{n}.", d, 44, H, eps) for n in range(LAYERS)]
    head = None
    if generator:
        head = masked_head(f, "generator_predictions.dense", "generator_predictions.LayerNorm", words,
                           "generator_lm_head.bias", d, eps)
    else:
        f.linear("discriminator_predictions.dense", d, d), f.linear("discriminator_predictions.dense_prediction", 1, d)
    embed = lambda ids: widen(norm(words[ids] + places[np.arange(ids.shape[-1])] + types[0]))
    return c, f, Model(embed, blocks, head=head, causal=False)


def bert_block(f, at, d, ff, H, eps):
    q, k, v = (f.linear(f"{at}attention.self.{x}", d, d) for x in ("query", "key", "value"))
    return Block("post", Attention(q, k, v, f.linear(at + "attention.output.dense", d, d), H, H, (d / H) ** -0.5, causal=False),
                 FeedForward(f.linear(at + "intermediate.dense", ff, d), f.linear(at + "output.dense", d, ff), ACTIVATIONS["gelu"]),
                 n1=f.norm(at + "attention.output.LayerNorm", d, eps), n2=f.norm(at + "output.LayerNorm", d, eps))


def esm(rotary, dropout):
    """ESM-2; ESM-1b, whose positions count from the padding's, with a norm before the first layer."""
    d, H, eps, mask, pad = 40, 5, 1e-5, 32, 1
    c = {"architectures": ["EsmForMaskedLM"], "model_type": "esm", "hidden_size": d, "intermediate_size": 36,
         "num_attention_heads": H, "num_hidden_layers": LAYERS, "layer_norm_eps": eps, "vocab_size": WORDS,
         "position_embedding_type": "rotary" if rotary else "absolute", "token_dropout": dropout,
         "emb_layer_norm_before": not rotary, "mask_token_id": mask, "pad_token_id": pad, "max_position_embeddings": 26,
         "hidden_act": "gelu", "is_folding_model": False, "esmfold_config": None, "vocab_list": None}
    f = File()
    at = "esm.embeddings."
    words, places = f.table(at + "word_embeddings.weight", WORDS, d), f.table(at + "position_embeddings.weight", 26, d)
    norm = (lambda x: x) if rotary else f.norm(at + "layer_norm", d, eps)
    blocks = []
    for n in range(LAYERS):
        at = f"esm.encoder.layer.{n}."
        q, k, v = (f.linear(f"{at}attention.self.{x}", d, d) for x in ("query", "key", "value"))
        if rotary:
            f.make(at + "attention.self.rotary_embeddings.inv_freq", frequencies(d // H, 1e4))
        blocks.append(Block("pre", Attention(q, k, v, f.linear(at + "attention.output.dense", d, d), H, H, (d / H) ** -0.5,
                                             causal=False, rope=Rope(frequencies(d // H, 1e4)) if rotary else None),
                            FeedForward(f.linear(at + "intermediate.dense", 36, d), f.linear(at + "output.dense", d, 36),
                                        ACTIVATIONS["gelu"]),
                            n1=f.norm(at + "attention.LayerNorm", d, eps), n2=f.norm(at + "LayerNorm", d, eps)))
    final = f.norm("esm.encoder.emb_layer_norm_after", d, eps)
    head = masked_head(f, "lm_head.dense", "lm_head.layer_norm", words, "lm_head.bias", d, eps)

    def embed(ids):
        rows = words[ids]
        if dropout:  # as if 0.15 · 0.8 of the tokens were hidden, whatever part is
            hidden = ids == mask
            rows = np.where(hidden[..., None], 0, rows) * (1 - 0.15 * 0.8) / (1 - hidden.mean(-1))
        return norm(rows if rotary else rows + places[pad + 1 + np.arange(ids.shape[-1])])
    return c, f, Model(embed, blocks, final, head, causal=False)


def modernbert():
    d, H, ff, eps, L = 40, 5, 36, 1e-5, 5
    c = {"architectures": ["ModernBertForMaskedLM"], "model_type": "modernbert", "hidden_size": d, "intermediate_size": ff,
         "num_attention_heads": H, "num_hidden_layers": L, "hidden_activation": "gelu", "norm_eps": eps, "norm_bias": False,
         "attention_bias": False, "mlp_bias": False, "classifier_activation": "gelu", "classifier_bias": False,
         "decoder_bias": True, "global_attn_every_n_layers": 3, "local_attention": 6, "global_rope_theta": 160000.0,
         "local_rope_theta": 10000.0, "max_position_embeddings": 64, "vocab_size": WORDS, "layer_norm_eps": eps,
         "tie_word_embeddings": True, "deterministic_flash_attn": False, "position_embedding_type": "absolute",
         "classifier_pooling": "mean", "reference_compile": True, "sparse_prediction": False, "pad_token_id": 3}
    f = File()
    words, norm = f.table("model.embeddings.tok_embeddings.weight", WORDS, d), f.norm("model.embeddings.norm", d, eps, bias=False)
    blocks = []
    for n in range(L):
        at, everywhere = f"model.layers.{n}.", n % 3 == 0
        q, k, v = fused(f.linear(at + "attn.Wqkv", 3 * d, d, False), d, d, d)
        act, gate = fused(f.linear(at + "mlp.Wi", 2 * ff, d, False), ff, ff)
        n1 = f.norm(at + "attn_norm", d, eps, bias=False) if n else lambda x: x  # the embedding's is the first layer's
        blocks.append(Block("pre", Attention(q, k, v, f.linear(at + "attn.Wo", d, d, False), H, H, (d / H) ** -0.5, causal=False,
                                             reach=None if everywhere else 3,
                                             rope=Rope(frequencies(d // H, 160000.0 if everywhere else 1e4))),
                            FeedForward(act, f.linear(at + "mlp.Wo", d, ff, False), ACTIVATIONS["gelu"], gate),
                            n1=n1, n2=f.norm(at + "mlp_norm", d, eps, bias=False)))
    dense, after = f.linear("head.dense", d, d, False), f.norm("head.norm", d, eps, bias=False)
    head = Head(Linear(words.T, f.vector("decoder.bias", WORDS)), lambda x: after(ACTIVATIONS["gelu"](dense(x))))
    return c, f, Model(lambda ids: norm(words[ids]), blocks, f.norm("model.final_norm", d, eps, bias=False), head, causal=False)


def bloom():
    d, H, eps = 40, 5, 1e-5
    c = {"architectures": ["BloomForCausalLM"], "model_type": "bloom", "hidden_size": d, "n_head": H, "n_layer": LAYERS,
         "layer_norm_epsilon": eps, "vocab_size": WORDS, "apply_residual_connection_post_layernorm": False,
         "offset_alibi": 100, "bias_dropout_fusion": True, "masked_softmax_fusion": True, "slow_but_exact": False,
         "skip_bias_add": True, "skip_bias_add_qkv": False, "unk_token_id": 0}
    f = File()
    words, norm = f.table("transformer.word_embeddings.weight", WORDS, d), f.norm("transformer.word_embeddings_layernorm", d, eps)
    slopes = [2.0 ** -(2 * (i + 1)) for i in range(4)] + [2.0 ** -1]  # of five heads: four's, then the first of eight's
    bias = lambda T: np.array(slopes)[:, None, None] * np.arange(T)[None, None, :]
    blocks = []
    for n in range(LAYERS):
        at = f"transformer.h.{n}."
        both = f.linear(at + "self_attention.query_key_value", 3 * d, d)
        W, b = both.weight.reshape(d, H, 3, d // H), both.bias.reshape(H, 3, d // H)
        q, k, v = (Linear(W[:, :, i].reshape(d, d), b[:, i].reshape(d)) for i in range(3))
        blocks.append(Block("pre", Attention(q, k, v, f.linear(at + "self_attention.dense", d, d), H, H, (d / H) ** -0.5, bias=bias),
                            FeedForward(f.linear(at + "mlp.dense_h_to_4h", 4 * d, d), f.linear(at + "mlp.dense_4h_to_h", d, 4 * d),
                                        ACTIVATIONS["gelu_new"]),
                            n1=f.norm(at + "input_layernorm", d, eps), n2=f.norm(at + "post_attention_layernorm", d, eps)))
    return c, f, Model(lambda ids: norm(words[ids]), blocks, f.norm("transformer.ln_f", d, eps), Head(Linear(words.T)))


def mpt():
    d, H, eps = 36, 6, 1e-5
    c = {"architectures": ["MPTForCausalLM"], "model_type": "mpt", "d_model": d, "n_heads": H, "n_layers": LAYERS,
         "expansion_ratio": 4, "vocab_size": WORDS, "no_bias": True, "max_seq_len": 64, "layer_norm_epsilon": eps,
         "attn_config": {"alibi": True, "alibi_bias_max": 8, "attn_type": "multihead_attention", "clip_qkv": None,
                         "softmax_scale": None, "qk_ln": False, "prefix_lm": False}}
    f = File()
    words = f.table("transformer.wte.weight", WORDS, d)
    of_eight = 2.0 ** -np.arange(1, 9)
    slopes = np.concatenate([of_eight[1::2], of_eight[::2]])[:H]
    bias = lambda T: slopes[:, None, None] * np.arange(1 - T, 1)[None, None, :]
    blocks = []
    for n in range(LAYERS):
        at = f"transformer.blocks.{n}."
        q, k, v = fused(f.linear(at + "attn.Wqkv", 3 * d, d, False), d, d, d)
        blocks.append(Block("pre", Attention(q, k, v, f.linear(at + "attn.out_proj", d, d, False), H, H, (d / H) ** -0.5, bias=bias),
                            FeedForward(f.linear(at + "ffn.up_proj", 4 * d, d, False), f.linear(at + "ffn.down_proj", d, 4 * d, False),
                                        ACTIVATIONS["gelu"]),
                            n1=f.norm(at + "norm_1", d, eps, bias=False), n2=f.norm(at + "norm_2", d, eps, bias=False)))
    return c, f, Model(lambda ids: words[ids], blocks, f.norm("transformer.norm_f", d, eps, bias=False), Head(Linear(words.T)))


def llama_original():
    """As Meta's params.json and llama2.c say it."""
    d, H, K, ff, eps = 40, 5, 5, 44, 1e-5
    c = {"dim": d, "n_layers": LAYERS, "n_heads": H, "norm_eps": eps, "vocab_size": WORDS, "multiple_of": 4}
    f = File()
    words = f.table("tok_embeddings.weight", WORDS, d)
    blocks = []
    for n in range(LAYERS):
        at = f"layers.{n}."
        q, k, v, o = (f.linear(f"{at}attention.{x}", d, d, False) for x in ("wq", "wk", "wv", "wo"))
        blocks.append(Block("pre", Attention(q, k, v, o, H, K, (d / H) ** -0.5, rope=Rope(frequencies(d // H, 1e4), adjacent=True)),
                            FeedForward(f.linear(at + "feed_forward.w1", ff, d, False), f.linear(at + "feed_forward.w2", d, ff, False),
                                        ACTIVATIONS["silu"], f.linear(at + "feed_forward.w3", ff, d, False)),
                            n1=f.norm(at + "attention_norm", d, eps, "rms"), n2=f.norm(at + "ffn_norm", d, eps, "rms")))
    f.make("rope.freqs", frequencies(d // H, 1e4))
    return c, f, Model(lambda ids: words[ids], blocks, f.norm("norm", d, eps, "rms"), Head(f.linear("output", WORDS, d, False)))


MODELS = {"opt": lambda: opt(True, 0), "opt-350m": lambda: opt(False, 24), "electra": lambda: electra(False),
          "electra-generator": lambda: electra(True), "esm2": lambda: esm(True, True), "esm2-no-dropout": lambda: esm(True, False),
          "esm1b": lambda: esm(False, True), "modernbert": modernbert, "bloom": bloom, "mpt": mpt, "llama-original": llama_original}


def write_models(models, masks=()):
    """Each model, a random text and every stage of it, in a folder of its name below the first argument; `masks`: the
    positions of masked tokens in texts of models that drop them."""
    for name, make in models.items():
        config, f, model = make()
        ids = RNG.integers(4, WORDS, LENGTH)
        if masks and config.get("token_dropout"):
            ids[list(masks)] = config["mask_token_id"]
        folder = os.path.join(sys.argv[1], name)
        write_folder(folder, config, f.tensors)
        np.savez(os.path.join(folder, "expected.npz"), ids=ids, **run(model, ids))


if __name__ == "__main__":
    write_models(MODELS, masks=(2, 7))
