#!/usr/bin/env python3
"""Writes this folder with PyTorch (1.13 of Debian 12): small random models in the containers, under the names and
with the arithmetic of published ones, and what PyTorch computes of them in float64. Run by hand; tests need neither.

NAME.pt (or .ckpt, .pth) is the model, NAME.npz its input (ids or inputs_embeds) and its stages under the program's
names, NAME.json its description, which is written by hand. Words behind the command choose some of the models.
"""
import argparse
import json
import math
import os
import sys
import types
import warnings
from collections import Counter, OrderedDict, defaultdict

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

warnings.filterwarnings("ignore")
os.chdir(os.path.dirname(os.path.abspath(__file__)))


class Kept(dict):
    """The stages that a forward pass goes through."""

    def attend(self, n, q, k, v, causal=False):
        """q, k, v: B, H, T, width; q is scaled. The heads' outputs side by side."""
        s = q @ k.transpose(-1, -2)
        if causal:
            s = s.masked_fill(torch.ones(s.shape[-2:], dtype=torch.bool).triu(1), -math.inf)
        w = self[f"layers.{n}.weights"] = s.softmax(-1)
        return (w @ v).transpose(1, 2).flatten(-2)

    def heads(self, x, count):
        return x.unflatten(-1, (count, -1)).transpose(1, 2)


def spread(module):
    """Norms and biases that are not ones and zeros, so that none can be left out unseen."""
    torch.manual_seed(30)
    with torch.no_grad():
        for name, p in module.named_parameters():
            p.copy_(torch.randn(p.shape) * (0.3 if p.dim() < 2 else 1.1 / p.shape[-2 if p.dim() == 3 else -1] ** 0.5) + (p.dim() < 2 and "bias" not in name))
        for name, b in module.named_buffers():
            if "running" in name:
                b.copy_(0.5 + torch.rand(b.shape))
    return module.eval()


def tree(**children):
    """A module that is its children's names."""
    module = nn.Module()
    for name, child in children.items():
        (module.register_parameter if isinstance(child, nn.Parameter) else module.add_module)(name, child)
    return module


def finish(name, module, saved, forward, *inputs, old=False, ending=".pt", **given):
    torch.save(saved, name + ending, _use_new_zipfile_serialization=not old)
    kept = Kept()
    with torch.no_grad():
        forward(module.double(), kept, *inputs)
    batch = {k: v.numpy().astype(np.float32) for k, v in kept.items()}
    np.savez_compressed(name + ".npz", **given, **batch)


# Proteins: an antibody language model, post-norm, fairseq's attention, tokens counted from position 1.

def antibody():
    d, f, H, V = 24, 40, 3, 22
    layer = lambda: tree(
        MultiHeadAttention=tree(Attention=tree(**{p: nn.Linear(d, d) for p in ("k_proj", "v_proj", "q_proj", "out_proj")})),
        MHALayerNorm=nn.LayerNorm(d, 1e-12),
        IntermediateLayer=tree(expand_dense=nn.Linear(d, f), dense_dense=nn.Linear(f, d), LayerNorm=nn.LayerNorm(d, 1e-12)))
    model = tree(
        AbRep=tree(AbEmbeddings=tree(AAEmbeddings=nn.Embedding(V, d, 21), PositionEmbeddings=nn.Embedding(18, d, 0),
                                     LayerNorm=nn.LayerNorm(d, 1e-12)),
                   EncoderBlocks=tree(Layers=nn.ModuleList([layer() for _ in range(2)]))),
        AbHead=tree(dense=nn.Linear(d, d), layer_norm=nn.LayerNorm(d, 1e-12), decoder=nn.Linear(d, V, bias=False),
                    bias=nn.Parameter(torch.zeros(V))))
    model.AbHead.decoder.bias = model.AbHead.bias  # one tensor under two names
    spread(model)
    ids = torch.randint(0, 20, (2, 11))

    def forward(m, kept, ids):
        e = m.AbRep.AbEmbeddings
        x = e.LayerNorm(e.AAEmbeddings(ids) + e.PositionEmbeddings(1 + torch.arange(ids.shape[1])))
        for n, b in enumerate(m.AbRep.EncoderBlocks.Layers):
            a = b.MultiHeadAttention.Attention
            q, k, v = (kept.heads(p(x), H) for p in (a.q_proj, a.k_proj, a.v_proj))
            x = b.MHALayerNorm(x + a.out_proj(kept.attend(n, q * (d // H) ** -0.5, k, v)))
            i = b.IntermediateLayer
            x = kept[f"layers.{n}.resid_post"] = i.LayerNorm(x + i.dense_dense(F.gelu(i.expand_dense(x))))
        h = m.AbHead
        kept["logits"] = h.decoder(h.layer_norm(F.gelu(h.dense(x))))
    finish("antibody", model, model.state_dict(), forward, ids, ids=ids)


# Proteins: ESM-2, pre-norm, rotary, rows times 0.88, a tied head behind a dense layer; half precision, the
# arguments in a Namespace beside the tensors.

def esm2():
    d, H, V, L = 24, 3, 33, 2
    layer = lambda: tree(self_attn=tree(**{p: nn.Linear(d, d) for p in ("k_proj", "v_proj", "q_proj", "out_proj")}),
                         self_attn_layer_norm=nn.LayerNorm(d), fc1=nn.Linear(d, 4 * d), fc2=nn.Linear(4 * d, d),
                         final_layer_norm=nn.LayerNorm(d))
    model = tree(encoder=tree(
        sentence_encoder=tree(embed_tokens=nn.Embedding(V, d, 1), layers=nn.ModuleList([layer() for _ in range(L)]),
                              emb_layer_norm_after=nn.LayerNorm(d)),
        lm_head=tree(weight=nn.Parameter(torch.zeros(V, d)), bias=nn.Parameter(torch.zeros(V)), dense=nn.Linear(d, d),
                     layer_norm=nn.LayerNorm(d))))
    for b in model.encoder.sentence_encoder.layers:
        b.self_attn.rot_emb = tree()
        b.self_attn.rot_emb.register_buffer("inv_freq", 1e4 ** (-torch.arange(0, d // H, 2) / (d // H)))
    spread(model).half()
    model.encoder.lm_head.weight = model.encoder.sentence_encoder.embed_tokens.weight
    args = argparse.Namespace(encoder_layers=L, encoder_embed_dim=d, encoder_attention_heads=H, token_dropout=True)
    saved = {"cfg": {"_name": None, "model": args}, "model": OrderedDict(model.state_dict())}
    ids = torch.cat([torch.zeros(1, 1, dtype=torch.long), torch.randint(4, 24, (1, 9)), torch.full((1, 1), 2)], 1)

    def turned(x):
        angle = torch.arange(x.shape[-2])[:, None].double() * 1e4 ** (-torch.arange(0, d // H, 2).double() / (d // H))
        cos, sin = (torch.cat([y, y], -1) for y in (angle.cos(), angle.sin()))
        a, b = x.chunk(2, -1)
        return x * cos + torch.cat([-b, a], -1) * sin

    def forward(m, kept, ids):
        s = m.encoder.sentence_encoder
        x = s.embed_tokens(ids) * 0.88
        for n, b in enumerate(s.layers):
            y, a = b.self_attn_layer_norm(x), b.self_attn
            q, k, v = (kept.heads(p(y), H) for p in (a.q_proj, a.k_proj, a.v_proj))
            x = x + a.out_proj(kept.attend(n, turned(q * (d // H) ** -0.5), turned(k), v))
            x = kept[f"layers.{n}.resid_post"] = x + b.fc2(F.gelu(b.fc1(b.final_layer_norm(x))))
        x, h = s.emb_layer_norm_after(x), m.encoder.lm_head
        kept["logits"] = F.linear(h.layer_norm(F.gelu(h.dense(x))), h.weight, h.bias)
    finish("esm2", model, saved, forward, ids, ids=ids)


# Routing: the encoder of "Attention, Learn to Solve Routing Problems": coordinates through a linear map, a matrix of
# each head, batch norms behind each sublayer. The form before 1.6, with a pickled module and its data beside it.

class SkipConnection(nn.Module):
    def __init__(self, module):
        super().__init__()
        self.module = module


class Instances:
    """What a run's baseline is measured on."""

    def __init__(self, data):
        self.data, self.size = data, len(data)


class Backend:
    """What modules held before 1.3; a call in their pickles."""

    def __reduce__(self):
        return _get_thnn_function_backend, ()


def _get_thnn_function_backend():
    pass


_get_thnn_function_backend.__module__ = "torch.nn.backends.thnn"
sys.modules["torch.nn.backends.thnn"] = types.ModuleType("torch.nn.backends.thnn")
sys.modules["torch.nn.backends.thnn"]._get_thnn_function_backend = _get_thnn_function_backend


def routing():
    d, f, H, k = 24, 32, 4, 5
    normal = lambda: tree(normalizer=nn.BatchNorm1d(d))
    attention = lambda: tree(W_query=nn.Parameter(torch.zeros(H, d, k)), W_key=nn.Parameter(torch.zeros(H, d, k)),
                             W_val=nn.Parameter(torch.zeros(H, d, 6)), W_out=nn.Parameter(torch.zeros(H, 6, d)))
    layer = lambda: nn.Sequential(
        SkipConnection(attention()), normal(),
        SkipConnection(nn.Sequential(nn.Linear(d, f), nn.ReLU(), nn.Linear(f, d))), normal())
    model = tree(W_placeholder=nn.Parameter(torch.zeros(2 * d)), init_embed=nn.Linear(2, d),
                 embedder=tree(layers=nn.Sequential(*[layer() for _ in range(3)])),
                 project_node_embeddings=nn.Linear(d, 3 * d, bias=False))
    spread(model)
    optimizer = torch.optim.Adam(model.parameters())
    saved = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "rng_state": torch.get_rng_state()[:64],
             "baseline": {"model": model, "dataset": Instances([torch.rand(7, 2) for _ in range(3)]), "epoch": 99}}
    places = torch.rand(2, 7, 2)

    def forward(m, kept, places):
        x = m.init_embed(places.double())
        for n, b in enumerate(m.embedder.layers):
            a, mlp = b[0].module, b[2].module
            q, key, v = (torch.einsum("btd,hdk->bhtk", x, W) for W in (a.W_query, a.W_key, a.W_val))
            x = x + kept.attend(n, q * k ** -0.5, key, v) @ a.W_out.flatten(0, 1)
            x = b[1].normalizer(x.flatten(0, 1)).view_as(x)
            x = x + mlp(x)
            x = kept[f"layers.{n}.resid_post"] = b[3].normalizer(x.flatten(0, 1)).view_as(x)
    for part in model.modules():
        part._backend = Backend()
    now = nn.Parameter.__reduce_ex__  # parameters were made by a call
    nn.Parameter.__reduce_ex__ = lambda self, protocol: (nn.Parameter, (self.data, self.requires_grad))
    finish("routing", model, saved, forward, places, old=True, inputs_embeds=places)
    nn.Parameter.__reduce_ex__ = now


# Chemistry: the encoder of OpenNMT-py's Molecular Transformer: rows times √d, sinusoids in a buffer, pre-norm. The
# form before 1.6, with torchtext's vocabulary and the options beside it.

class Vocab:
    def __init__(self, words):
        self.freqs, self.itos = Counter(words), sorted(set(words))
        self.stoi = defaultdict(int, {w: i for i, w in enumerate(self.itos)})


def chemistry():
    d, f, H, V, L = 24, 36, 4, 19, 2
    layer = lambda: tree(
        self_attn=tree(linear_keys=nn.Linear(d, d), linear_values=nn.Linear(d, d), linear_query=nn.Linear(d, d),
                       final_linear=nn.Linear(d, d)),
        feed_forward=tree(w_1=nn.Linear(d, f), w_2=nn.Linear(f, d), layer_norm=nn.LayerNorm(d, 1e-6)),
        layer_norm=nn.LayerNorm(d, 1e-6))
    pe = tree()
    place, pairs = torch.arange(32.0)[:, None], torch.exp(torch.arange(0, d, 2) * -(math.log(1e4) / d))
    pe.register_buffer("pe", torch.stack([(place * pairs).sin(), (place * pairs).cos()], -1).flatten(1)[:, None])
    model = tree(encoder=tree(
        embeddings=tree(make_embedding=nn.Sequential(OrderedDict(emb_luts=nn.ModuleList([nn.Embedding(V, d, 1)]), pe=pe))),
        transformer=nn.ModuleList([layer() for _ in range(L)]), layer_norm=nn.LayerNorm(d, 1e-6)))
    generator = nn.Sequential(nn.Linear(d, V), nn.LogSoftmax(-1))
    spread(model), spread(generator)
    saved = {"model": model.state_dict(), "generator": generator.state_dict(), "vocab": [("src", Vocab("CCON=c1"))],
             "opt": argparse.Namespace(layers=L, rnn_size=d, heads=H, transformer_ff=f, position_encoding=True),
             "optim": torch.optim.Adam(model.parameters()).state_dict()}
    ids = torch.randint(2, V, (1, 10))

    def forward(m, kept, ids):
        e = m.encoder.embeddings.make_embedding
        x = e.emb_luts[0](ids) * math.sqrt(d) + e.pe.pe[:ids.shape[1], 0]
        for n, b in enumerate(m.encoder.transformer):
            y, a = b.layer_norm(x), b.self_attn
            q, k, v = (kept.heads(p(y), H) for p in (a.linear_query, a.linear_keys, a.linear_values))
            x = x + a.final_linear(kept.attend(n, q / math.sqrt(d // H), k, v))
            w = b.feed_forward
            x = kept[f"layers.{n}.resid_post"] = x + w.w_2(w.w_1(w.layer_norm(x)).relu())
        kept["final"] = m.encoder.layer_norm(x)
    finish("chemistry", model, saved, forward, ids, old=True, ids=ids)


# Text recognition: PARSeq's image encoder: patches through a convolution of their size, learned places, timm's
# names. A checkpoint of Lightning.

def recognition():
    d, H, L = 24, 3, 2
    layer = lambda: tree(norm1=nn.LayerNorm(d, 1e-6), attn=tree(qkv=nn.Linear(d, 3 * d), proj=nn.Linear(d, d)),
                         norm2=nn.LayerNorm(d, 1e-6), mlp=tree(fc1=nn.Linear(d, 4 * d), fc2=nn.Linear(4 * d, d)))
    model = tree(encoder=tree(pos_embed=nn.Parameter(torch.zeros(1, 8, d)), patch_embed=tree(proj=nn.Conv2d(3, d, (4, 8), (4, 8))),
                              blocks=nn.ModuleList([layer() for _ in range(L)]), norm=nn.LayerNorm(d, 1e-6)))
    spread(model)
    saved = {"epoch": 3, "global_step": 100, "pytorch-lightning_version": "1.6.5", "state_dict": model.state_dict(),
             "callbacks": {}, "optimizer_states": [torch.optim.Adam(model.parameters()).state_dict()], "lr_schedulers": [],
             "hyper_parameters": {"embed_dim": d, "enc_num_heads": H, "img_size": [8, 32], "patch_size": [4, 8]}}
    image = torch.randn(1, 3, 8, 32)
    patches = F.unfold(image, (4, 8), stride=(4, 8)).transpose(1, 2)  # B, T, channels · rows · columns

    def forward(m, kept, image):
        e = m.encoder
        x = e.patch_embed.proj(image.double()).flatten(2).transpose(1, 2) + e.pos_embed
        for n, b in enumerate(e.blocks):
            q, k, v = b.attn.qkv(b.norm1(x)).unflatten(-1, (3, H, -1)).permute(2, 0, 3, 1, 4)
            x = x + b.attn.proj(kept.attend(n, q * (d // H) ** -0.5, k, v))
            x = kept[f"layers.{n}.resid_post"] = x + b.mlp.fc2(F.gelu(b.mlp.fc1(b.norm2(x))))
        kept["final"] = e.norm(x)
    finish("recognition", model, saved, forward, image, ending=".ckpt", inputs_embeds=patches)


# Text recognition and others: x-transformers, whose layers take turns: attention 0, feed-forward 1, attention 2 …

def turns():
    d, H, k, V, L = 20, 3, 8, 27, 2
    pair = lambda: [nn.ModuleList([nn.ModuleList([tree(gamma=nn.Parameter(torch.zeros(d)))]), block]) for block in (
        tree(**{f"to_{p}": nn.Linear(d, H * k, bias=False) for p in "qkv"}, to_out=nn.Linear(H * k, d, bias=False)),
        tree(ff=nn.Sequential(nn.Sequential(nn.Linear(d, 4 * d), nn.GELU()), nn.Dropout(), nn.Linear(4 * d, d))))]
    model = tree(net=tree(
        token_emb=tree(emb=nn.Embedding(V, d)), pos_emb=tree(emb=nn.Embedding(16, d)),
        attn_layers=tree(layers=nn.ModuleList(sum((pair() for _ in range(L)), [])), final_norm=tree(gamma=nn.Parameter(torch.zeros(d)))),
        to_logits=nn.Linear(d, V, bias=False)))
    spread(model)
    ids = torch.randint(0, V, (2, 9))

    def forward(m, kept, ids):
        e = m.net
        norm = lambda x, part: F.layer_norm(x, (d,), part.gamma)
        x = e.token_emb.emb(ids) + e.pos_emb.emb.weight[:ids.shape[1]] * d ** -0.5
        for n in range(L):
            a, b = e.attn_layers.layers[2 * n], e.attn_layers.layers[2 * n + 1]
            y = norm(x, a[0][0])
            q, key, v = (kept.heads(p(y), H) for p in (a[1].to_q, a[1].to_k, a[1].to_v))
            x = x + a[1].to_out(kept.attend(n, q * k ** -0.5, key, v, causal=True))
            x = kept[f"layers.{n}.resid_post"] = x + b[1].ff(norm(x, b[0][0]))
        kept["logits"] = e.to_logits(norm(x, e.attn_layers.final_norm))
    finish("turns", model, model.state_dict(), forward, ids, ids=ids)


# PyTorch's own encoder as its tutorial on language models has it, the whole module pickled.

class PositionalEncoding(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.dropout = nn.Dropout(0.2)
        place, pairs = torch.arange(30.0)[:, None], torch.exp(torch.arange(0, d, 2) * (-math.log(1e4) / d))
        self.register_buffer("pe", torch.stack([(place * pairs).sin(), (place * pairs).cos()], -1).flatten(1)[:, None])


class TransformerModel(nn.Module):
    def __init__(self, V, d, H, f, L):
        super().__init__()
        self.pos_encoder = PositionalEncoding(d)
        self.transformer_encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(d, H, f, 0.2), L)
        self.encoder, self.d_model, self.decoder = nn.Embedding(V, d), d, nn.Linear(d, V)


def module():
    d, H, f, V, L = 24, 4, 30, 23, 2
    model = spread(TransformerModel(V, d, H, f, L))
    ids = torch.randint(0, V, (1, 8))

    def forward(m, kept, ids):
        x = m.encoder(ids) * math.sqrt(d) + m.pos_encoder.pe[:ids.shape[1], 0]
        for n, b in enumerate(m.transformer_encoder.layers):
            a = b.self_attn
            q, k, v = (kept.heads(y, H) for y in F.linear(x, a.in_proj_weight, a.in_proj_bias).chunk(3, -1))
            x = b.norm1(x + a.out_proj(kept.attend(n, q * (d // H) ** -0.5, k, v, causal=True)))
            x = kept[f"layers.{n}.resid_post"] = b.norm2(x + b.linear2(b.linear1(x).relu()))
        kept["logits"] = m.decoder(x)
    mask = torch.nn.Transformer.generate_square_subsequent_mask(ids.shape[1])
    own = model.transformer_encoder((model.encoder(ids) * math.sqrt(d)).transpose(0, 1) + model.pos_encoder.pe[:8], mask)
    finish("module", model, model, forward, ids, old=True, ending=".pth", ids=ids)
    kept = Kept()
    forward(model, kept, ids)
    assert torch.allclose(model.decoder(own.transpose(0, 1).double()), kept["logits"], atol=1e-4)


# Arithmetic: nanoGPT's ckpt.pt of a compiled model, and minGPT's adder as a bare state dictionary.

def addition():
    d, H, V, L, T = 24, 3, 12, 2, 16
    layer = lambda: tree(ln_1=nn.LayerNorm(d), attn=tree(c_attn=nn.Linear(d, 3 * d), c_proj=nn.Linear(d, d)),
                         ln_2=nn.LayerNorm(d), mlp=tree(c_fc=nn.Linear(d, 4 * d), c_proj=nn.Linear(4 * d, d)))
    body = tree(transformer=tree(wte=nn.Embedding(V, d), wpe=nn.Embedding(T, d), h=nn.ModuleList([layer() for _ in range(L)]),
                                 ln_f=nn.LayerNorm(d)), lm_head=nn.Linear(d, V, bias=False))
    spread(body)
    body.lm_head.weight = body.transformer.wte.weight
    model = body
    model_args = dict(n_layer=L, n_head=H, n_embd=d, block_size=T, bias=True, vocab_size=V, dropout=0.0)
    saved = {"model": {"_orig_mod." + k: v for k, v in body.state_dict().items()}, "model_args": model_args,
             "optimizer": torch.optim.AdamW(body.parameters()).state_dict(), "iter_num": 250,
             "best_val_loss": torch.tensor(1.25), "config": {"dataset": "addition", "batch_size": 64, "n_head": H}}
    ids = torch.randint(0, V, (1, 9))

    def forward(m, kept, ids):
        t = m.transformer
        x = t.wte(ids) + t.wpe(torch.arange(ids.shape[1]))
        for n, b in enumerate(t.h):
            q, k, v = (kept.heads(y, H) for y in b.attn.c_attn(b.ln_1(x)).chunk(3, -1))
            x = x + b.attn.c_proj(kept.attend(n, q * (d // H) ** -0.5, k, v, causal=True))
            x = kept[f"layers.{n}.resid_post"] = x + b.mlp.c_proj(F.gelu(b.mlp.c_fc(b.ln_2(x))))
        kept["logits"] = m.lm_head(t.ln_f(x))
    finish("addition", model, saved, forward, ids, ids=ids)


def adder():
    d, H, V, L, T = 24, 3, 10, 2, 6
    linear = lambda *names: {name: nn.Linear(d, d) for name in names}
    layer = lambda: tree(ln1=nn.LayerNorm(d), ln2=nn.LayerNorm(d), attn=tree(**linear("key", "query", "value", "proj")),
                         mlp=nn.Sequential(nn.Linear(d, 4 * d), nn.GELU(), nn.Linear(4 * d, d), nn.Dropout()))
    model = tree(tok_emb=nn.Embedding(V, d), pos_emb=nn.Parameter(torch.zeros(1, T, d)),
                 blocks=nn.Sequential(*[layer() for _ in range(L)]), ln_f=nn.LayerNorm(d), head=nn.Linear(d, V, bias=False))
    spread(model)
    for b in model.blocks:
        b.attn.register_buffer("mask", torch.ones(T, T).tril().view(1, 1, T, T))
    ids = torch.randint(0, V, (1, 6))

    def forward(m, kept, ids):
        x = m.tok_emb(ids) + m.pos_emb[0, :ids.shape[1]]
        for n, b in enumerate(m.blocks):
            y, a = b.ln1(x), b.attn
            q, k, v = (kept.heads(p(y), H) for p in (a.query, a.key, a.value))
            x = x + a.proj(kept.attend(n, q * (d // H) ** -0.5, k, v, causal=True))
            x = kept[f"layers.{n}.resid_post"] = x + b.mlp(b.ln2(x))
        kept["logits"] = m.head(m.ln_f(x))
    finish("adder", model, model.state_dict(), forward, ids, old=True, ids=ids)


# Chemistry: ALBERT as RXNMapper ships it: a folder whose pytorch_model.bin is in the form before 1.6, with the
# arguments of its training beside it; one layer's weights for all layers, tables narrower than the stream.

def reaction():
    d, E, f, H, V, L = 24, 10, 36, 4, 29, 3
    linear = lambda *names: {name: nn.Linear(d, d) for name in names}
    layer = tree(full_layer_layer_norm=nn.LayerNorm(d, 1e-12),
                 attention=tree(**linear("query", "key", "value", "dense"), LayerNorm=nn.LayerNorm(d, 1e-12)),
                 ffn=nn.Linear(d, f), ffn_output=nn.Linear(f, d))
    model = tree(
        albert=tree(
            embeddings=tree(word_embeddings=nn.Embedding(V, E, 0), position_embeddings=nn.Embedding(16, E),
                            token_type_embeddings=nn.Embedding(2, E), LayerNorm=nn.LayerNorm(E, 1e-12)),
            encoder=tree(embedding_hidden_mapping_in=nn.Linear(E, d),
                         albert_layer_groups=nn.ModuleList([tree(albert_layers=nn.ModuleList([layer]))])),
            pooler=nn.Linear(d, d)),
        predictions=tree(bias=nn.Parameter(torch.zeros(V)), LayerNorm=nn.LayerNorm(E), dense=nn.Linear(d, E),
                         decoder=nn.Linear(E, V)))
    spread(model)
    model.predictions.decoder.weight = model.albert.embeddings.word_embeddings.weight
    model.predictions.decoder.bias = model.predictions.bias
    config = {
        "architectures": ["AlbertForMaskedLM"], "attention_probs_dropout_prob": 0.1, "bos_token_id": 0, "classifier_dropout_prob": 0.1,
        "do_sample": False, "down_scale_factor": 1, "embedding_size": E, "eos_token_ids": 0, "finetuning_task": None, "gap_size": 0,
        "hidden_act": "gelu", "hidden_dropout_prob": 0.1, "hidden_size": d, "id2label": {"0": "LABEL_0", "1": "LABEL_1"},
        "initializer_range": 0.02, "inner_group_num": 1, "intermediate_size": f, "is_decoder": False, "layer_norm_eps": 1e-12,
        "length_penalty": 1.0, "max_position_embeddings": 16, "model_type": "albert", "net_structure_type": 0, "num_attention_heads": H,
        "num_hidden_groups": 1, "num_hidden_layers": L, "num_labels": 2, "num_memory_blocks": 0, "output_past": True, "pad_token_id": 0,
        "pruned_heads": {}, "torchscript": False, "type_vocab_size": 2, "use_bfloat16": False, "vocab_size": V}
    # ALBERT's kind of tokenizer: SentencePiece's unigram, pieces with their logarithms.
    pieces = ["<pad>", "<unk>", "[CLS]", "[SEP]", "[MASK]", "\u2581", "C", "O", "N", "c", "1", "=", "(", ")", ".", ">", "Br", "B", "r", "Cl",
              "l", "CC", "\u2581C", "c1", "C(=O)", "cc", "\u2581Br", "n", "#"]
    assert len(pieces) == V
    special = lambda i: {"id": i, "content": pieces[i], "single_word": False, "lstrip": False, "rstrip": False, "normalized": False,
                         "special": True}
    tokenizer = {
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": [special(i) for i in range(5)], "normalizer": None,
        "pre_tokenizer": {"type": "Metaspace", "replacement": "\u2581", "add_prefix_space": True},
        "post_processor": {
            "type": "TemplateProcessing",
            "single": [{"SpecialToken": {"id": "[CLS]", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}},
                       {"SpecialToken": {"id": "[SEP]", "type_id": 0}}],
            "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
            "special_tokens": {"[CLS]": {"id": "[CLS]", "ids": [2], "tokens": ["[CLS]"]},
                               "[SEP]": {"id": "[SEP]", "ids": [3], "tokens": ["[SEP]"]}}},
        "decoder": {"type": "Metaspace", "replacement": "\u2581", "add_prefix_space": True},
        "model": {"type": "Unigram", "unk_id": 1,
                  "vocab": [[piece, 0.0 if i < 5 else -2.0 - 0.1 * i + len(piece)] for i, piece in enumerate(pieces)]}}
    os.makedirs("reaction", exist_ok=True)
    for name, value in (("config", config), ("tokenizer", tokenizer)):
        with open(f"reaction/{name}.json", "w") as file:
            json.dump(value, file, indent=1)
    torch.save(argparse.Namespace(learning_rate=1e-4, device=torch.device("cpu")), "reaction/training_args.bin")
    # "CC(=O)Br c1": the best cut of each word, found by trying all.
    scores = dict(tokenizer["model"]["vocab"][5:])

    def best(word):
        if not word:
            return 0.0, []
        cuts = [(scores[word[:n]] + best(word[n:])[0], [word[:n]] + best(word[n:])[1]) for n in range(1, len(word) + 1) if word[:n] in scores]
        return max(cuts, key=lambda cut: cut[0])
    text = ["\u2581CC(=O)Br", "\u2581c1"]
    ids = torch.tensor([[2] + [pieces.index(p) for word in text for p in best(word)[1]] + [3]])

    def forward(m, kept, ids):
        e, layer = m.albert.embeddings, m.albert.encoder.albert_layer_groups[0].albert_layers[0]
        x = e.LayerNorm(e.word_embeddings(ids) + e.position_embeddings(torch.arange(ids.shape[1])) + e.token_type_embeddings.weight[0])
        x = m.albert.encoder.embedding_hidden_mapping_in(x)
        for n in range(L):
            a = layer.attention
            q, k, v = (kept.heads(p(x), H) for p in (a.query, a.key, a.value))
            x = a.LayerNorm(x + a.dense(kept.attend(n, q / (d // H) ** 0.5, k, v)))
            x = kept[f"layers.{n}.resid_post"] = layer.full_layer_layer_norm(x + layer.ffn_output(F.gelu(layer.ffn(x))))
        p = m.predictions
        kept["logits"] = p.decoder(p.LayerNorm(F.gelu(p.dense(x))))
    p = model.predictions
    p.LayerNorm.eps = 1e-12
    finish("reaction/pytorch_model", model, model.state_dict(), forward, ids, old=True, ending=".bin", ids=ids)
    os.rename("reaction/pytorch_model.npz", "reaction.npz")


# Pictures: DINOv2's names: a class token before the patches, each sublayer's result times a learned vector. Saved by a
# training run, teacher and student side by side.

def pictures():
    d, H, L = 24, 3, 2
    gamma = lambda: tree(gamma=nn.Parameter(torch.zeros(d)))
    layer = lambda: tree(norm1=nn.LayerNorm(d, 1e-6), attn=tree(qkv=nn.Linear(d, 3 * d), proj=nn.Linear(d, d)), ls1=gamma(),
                         norm2=nn.LayerNorm(d, 1e-6), mlp=tree(fc1=nn.Linear(d, 4 * d), fc2=nn.Linear(4 * d, d)), ls2=gamma())
    model = tree(cls_token=nn.Parameter(torch.zeros(1, 1, d)), pos_embed=nn.Parameter(torch.zeros(1, 7, d)),
                 mask_token=nn.Parameter(torch.zeros(1, d)), patch_embed=tree(proj=nn.Conv2d(3, d, 4, 4)),
                 blocks=nn.ModuleList([layer() for _ in range(L)]), norm=nn.LayerNorm(d, 1e-6))
    spread(model)
    student = {name: value.half() for name, value in model.state_dict().items() if "norm" in name}
    saved = {"teacher": {"backbone." + name: value for name, value in model.state_dict().items()},
             "student": {"module.backbone." + name: value for name, value in student.items()},
             "optimizer": torch.optim.AdamW(model.parameters()).state_dict(), "epoch": 3}
    images = torch.randn(2, 3, 8, 12)
    patches = F.unfold(images, 4, stride=4).transpose(1, 2)

    def forward(m, kept, images):
        x = m.patch_embed.proj(images.double()).flatten(2).transpose(1, 2)
        x = torch.cat([m.cls_token.expand(2, -1, -1), x], 1) + m.pos_embed
        for n, b in enumerate(m.blocks):
            q, k, v = b.attn.qkv(b.norm1(x)).unflatten(-1, (3, H, -1)).permute(2, 0, 3, 1, 4)
            x = x + b.ls1.gamma * b.attn.proj(kept.attend(n, q * (d // H) ** -0.5, k, v))
            x = kept[f"layers.{n}.resid_post"] = x + b.ls2.gamma * b.mlp.fc2(F.gelu(b.mlp.fc1(b.norm2(x))))
        kept["final"] = m.norm(x)
    finish("pictures", model, saved, forward, images, ending=".pth", inputs_embeds=patches)


# Translation and reactions: "The Annotated Transformer", whose norms divide by the deviation of n - 1, plus eps.

class AnnotatedNorm(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.a_2, self.b_2 = nn.Parameter(torch.zeros(d)), nn.Parameter(torch.zeros(d))

    def forward(self, x):
        return self.a_2 * (x - x.mean(-1, keepdim=True)) / (x.std(-1, keepdim=True) + 1e-6) + self.b_2


def annotated():
    d, H, V, L = 24, 3, 31, 2
    heads = lambda: tree(linears=nn.ModuleList([nn.Linear(d, d) for _ in range(4)]))
    layer = lambda n, **more: tree(self_attn=heads(), **more, feed_forward=tree(w_1=nn.Linear(d, 40), w_2=nn.Linear(40, d)),
                                   sublayer=nn.ModuleList([tree(norm=AnnotatedNorm(d)) for _ in range(n)]))
    place, pairs = torch.arange(20.0)[:, None], torch.exp(torch.arange(0, d, 2) * (-math.log(1e4) / d))
    pe = torch.stack([(place * pairs).sin(), (place * pairs).cos()], -1).flatten(1)[None]

    def embedding():
        places = tree()
        places.register_buffer("pe", pe.clone())
        return nn.Sequential(tree(lut=nn.Embedding(V, d)), places)
    model = tree(encoder=tree(layers=nn.ModuleList([layer(2) for _ in range(L)]), norm=AnnotatedNorm(d)),
                 decoder=tree(layers=nn.ModuleList([layer(3, src_attn=heads()) for _ in range(L)]), norm=AnnotatedNorm(d)),
                 src_embed=embedding(), tgt_embed=embedding(), generator=tree(proj=nn.Linear(d, V)))
    spread(model)
    ids = torch.randint(0, V, (2, 9))

    def forward(m, kept, ids):
        x = m.src_embed[0].lut(ids) * d ** 0.5 + pe[:, :ids.shape[1]].double()
        for n, b in enumerate(m.encoder.layers):
            y, maps = b.sublayer[0].norm(x), b.self_attn.linears
            q, k, v = (kept.heads(p(y), H) for p in maps[:3])
            x = x + maps[3](kept.attend(n, q * (d // H) ** -0.5, k, v))
            f = b.feed_forward
            x = kept[f"layers.{n}.resid_post"] = x + f.w_2(F.relu(f.w_1(b.sublayer[1].norm(x))))
        kept["final"] = m.encoder.norm(x)
    finish("annotated", model, model.state_dict(), forward, ids, ids=ids)


for make in (reaction, antibody, esm2, routing, chemistry, recognition, turns, module, addition, adder, pictures, annotated):
    if len(sys.argv) == 1 or make.__name__ in sys.argv[1:]:
        make()
