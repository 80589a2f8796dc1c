#!/usr/bin/env python3
"""Writes this folder with PyTorch (1.13 of Debian 12): small models of several parts, pickled whole or as tensors beside
a config.json, and what their own forward functions compute in float64. Run by hand; tests need no PyTorch.

NAME.pth or NAME.pt, or NAME/ with model.safetensors and config.json, is the model; NAME.npz its input (ids or inputs_embeds) and
the stages that the drawn-up description is to give: resid_post of the last layer, final, logits.
"""
import json
import os
import shutil
import struct

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

os.chdir(os.path.dirname(os.path.abspath(__file__)))
d, f, V, T, L = 24, 20, 29, 9, 2


def drawn(module):
    """Norms and biases that are not ones and zeros, so that none can be left out unseen."""
    torch.manual_seed(49)
    with torch.no_grad():
        for name, p in module.named_parameters():
            p.copy_(torch.randn(p.shape) * (0.3 if p.dim() < 2 else 1.1 / p.shape[-1] ** 0.5) + (p.dim() == 1 and "bias" not in name))
    return module.eval()


def expected(name, **tensors):
    np.savez(name + ".npz", **{key.replace("__", "."): np.asarray(t.detach() if torch.is_tensor(t) else t) for key, t in tensors.items()})


def pickled(name, model):
    torch.save(model, name + ".pth")
    return model.double()


def folder(name, model, config):
    """safetensors, whose names are sorted, and a config.json."""
    shutil.rmtree(name, ignore_errors=True)
    os.makedirs(name)
    header, blob = {}, b""
    for key, t in sorted(model.state_dict().items()):
        data = t.detach().numpy().astype(np.float32).tobytes()
        header[key] = {"dtype": "F32", "shape": list(t.shape), "data_offsets": [len(blob), len(blob) + len(data)]}
        blob += data
    text = json.dumps(header).encode()
    with open(name + "/model.safetensors", "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + blob)
    with open(name + "/config.json", "w") as file:
        json.dump(config, file, indent=1)
    return model.double()


# Pickled whole: an encoder of pre-norm layers whose norms have epsilons of their own; beside it, and before it in the
# file, an attention with another number of heads that pools.

class Pooled(nn.Module):
    def __init__(self):
        super().__init__()
        self.pool = nn.MultiheadAttention(d, 2, batch_first=True)
        self.pool_norm = nn.LayerNorm(d, eps=0.5)
        self.query = nn.Parameter(torch.zeros(1, 1, d))
        self.word_embedding, self.position_embedding = nn.Embedding(V, d), nn.Embedding(16, d)
        layer = nn.TransformerEncoderLayer(d, 4, f, activation="gelu", norm_first=True, batch_first=True)
        layer.norm1.eps, layer.norm2.eps = 1e-3, 1e-2
        self.encoder = nn.TransformerEncoder(layer, L, norm=nn.LayerNorm(d, eps=0.1))
        self.lm_head = nn.Linear(d, V)

    def forward(self, ids):
        x = self.word_embedding(ids) + self.position_embedding(torch.arange(ids.shape[1]))
        for layer in self.encoder.layers:
            x = layer(x)
        final = self.encoder.norm(x)
        self.pool(self.query.expand(len(ids), -1, -1), self.pool_norm(final), self.pool_norm(final))
        return x, final, self.lm_head(final)


def pooled():
    model = pickled("pooled", drawn(Pooled()))
    ids = torch.randint(0, V, (1, T))
    x, final, logits = model(ids)
    expected("pooled", ids=ids, **{f"layers__{L - 1}__resid_post": x}, final=final, logits=logits)


# nn.Transformer, pickled whole: the encoder's description; the head is the decoder's, and the decoder's embedding
# stands first.

class Translator(nn.Module):
    def __init__(self):
        super().__init__()
        self.tgt_embed, self.tgt_pos = nn.Embedding(V + 4, d), nn.Embedding(16, d)
        self.src_embed, self.src_pos = nn.Embedding(V, d), nn.Embedding(16, d)
        self.core = nn.Transformer(d, 4, L, L + 1, f, activation="relu", batch_first=True)
        for layer in self.core.encoder.layers:
            layer.norm1.eps = layer.norm2.eps = 1e-3
        self.core.encoder.norm.eps, self.core.decoder.norm.eps = 1e-2, 0.5
        self.generator = nn.Linear(d, V + 4)

    def forward(self, ids):
        x = self.src_embed(ids) + self.src_pos(torch.arange(ids.shape[1]))
        for layer in self.core.encoder.layers:
            x = layer(x)
        return x, self.core.encoder.norm(x)


def translator():
    model = pickled("translator", drawn(Translator()))
    ids = torch.randint(0, V, (1, T))
    x, final = model(ids)
    expected("translator", ids=ids, **{f"layers__{L - 1}__resid_post": x}, final=final)


# A decoder that reads another part's stream in every layer, which no description says.

class Reader(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(V, d)
        self.decoder = nn.TransformerDecoder(nn.TransformerDecoderLayer(d, 4, f, batch_first=True), L)


def reader():
    pickled("reader", drawn(Reader()))


# Two towers of one width, of images and of text, each with its config below the other's name; the larger one is drawn up.

class Block(nn.Module):
    def __init__(self, heads, act, eps):
        super().__init__()
        self.heads, self.act = heads, act
        self.ln_1, self.ln_2 = nn.LayerNorm(d, eps), nn.LayerNorm(d, eps)
        self.attn = nn.ModuleDict({x: nn.Linear(d, d) for x in ("q_proj", "k_proj", "v_proj", "out_proj")})
        self.mlp = nn.ModuleDict({"fc1": nn.Linear(d, f), "fc2": nn.Linear(f, d)})

    def forward(self, x, causal):
        y, a = self.ln_1(x), self.attn
        q, k, v = (a[n](y).unflatten(-1, (self.heads, -1)).transpose(1, 2) for n in ("q_proj", "k_proj", "v_proj"))
        s = q @ k.transpose(-1, -2) / (d // self.heads) ** 0.5
        if causal:
            s = s.masked_fill(torch.ones(s.shape[-2:], dtype=torch.bool).triu(1), -np.inf)
        x = x + a["out_proj"]((s.softmax(-1) @ v).transpose(1, 2).flatten(-2))
        return x + self.mlp["fc2"](self.act(self.mlp["fc1"](self.ln_2(x))))


class Towers(nn.Module):
    def __init__(self, images, words):
        super().__init__()
        self.image, self.text = nn.Module(), nn.Module()
        self.image.patch_embed = nn.Conv2d(3, d, 4, 4, bias=False)
        self.image.class_token, self.image.pos_embed = nn.Parameter(torch.zeros(1, 1, d)), nn.Parameter(torch.zeros(1, 7, d))
        self.image.ln_pre, self.image.ln_post = nn.LayerNorm(d, 1e-3), nn.LayerNorm(d, 1e-3)
        self.image.blocks = nn.ModuleList([Block(3, F.relu, 1e-3) for _ in range(images)])
        self.image.proj, self.text.proj = nn.Linear(d, 10, bias=False), nn.Linear(d, 10, bias=False)
        self.text.token_embed, self.text.pos_embed = nn.Embedding(V, d), nn.Embedding(16, d)
        self.text.blocks = nn.ModuleList([Block(4, F.silu, 1e-2) for _ in range(words)])
        self.text.ln_final = nn.LayerNorm(d, 1e-2)

    def of_images(self, pictures):
        i = self.image
        x = i.patch_embed(pictures).flatten(2).transpose(1, 2)
        x = i.ln_pre(torch.cat([i.class_token.expand(len(x), -1, -1), x], 1) + i.pos_embed)
        for block in i.blocks:
            x = block(x, False)
        return x, i.ln_post(x)

    def of_text(self, ids):
        x = self.text.token_embed(ids) + self.text.pos_embed(torch.arange(ids.shape[1]))
        for block in self.text.blocks:
            x = block(x, False)
        return x, self.text.ln_final(x)


CONFIG = {"text_config": {"num_attention_heads": 4, "hidden_act": "silu", "layer_norm_eps": 1e-2},
          "vision_config": {"num_attention_heads": 3, "hidden_act": "relu", "layer_norm_eps": 1e-3}}


def towers():
    model = folder("images", drawn(Towers(3, 2)), CONFIG)
    pictures = torch.randn(1, 3, 8, 12)
    patches = F.unfold(pictures, 4, stride=4).transpose(1, 2)
    x, final = model.of_images(pictures.double())
    expected("images", inputs_embeds=patches, layers__2__resid_post=x, final=final)
    model = folder("words", drawn(Towers(2, 3)), CONFIG)
    ids = torch.randint(0, V, (1, T))
    x, final = model.of_text(ids)
    expected("words", ids=ids, layers__2__resid_post=x, final=final)


# CLIP as OpenAI publishes it, under other numbers: the text's tensors stand at the top, before the pictures'.

class Resblock(nn.Module):
    def __init__(self, heads):
        super().__init__()
        self.attn, self.ln_1, self.ln_2 = nn.MultiheadAttention(d, heads, batch_first=True), nn.LayerNorm(d), nn.LayerNorm(d)
        self.mlp = nn.ModuleDict({"c_fc": nn.Linear(d, f), "c_proj": nn.Linear(f, d)})

    def forward(self, x):
        y = self.ln_1(x)
        x = x + self.attn(y, y, y, need_weights=False)[0]
        y = self.mlp["c_fc"](self.ln_2(x))
        return x + self.mlp["c_proj"](y * torch.sigmoid(1.702 * y))


class Clip(nn.Module):
    def __init__(self):
        super().__init__()
        stack = lambda n, heads: nn.ModuleDict({"resblocks": nn.ModuleList([Resblock(heads) for _ in range(n)])})
        self.positional_embedding, self.text_projection = nn.Parameter(torch.zeros(16, d)), nn.Parameter(torch.zeros(d, 10))
        self.logit_scale = nn.Parameter(torch.zeros(()))
        v = self.visual = nn.Module()
        v.class_embedding, v.positional_embedding = nn.Parameter(torch.zeros(d)), nn.Parameter(torch.zeros(7, d))
        v.proj, v.conv1 = nn.Parameter(torch.zeros(d, 10)), nn.Conv2d(3, d, 4, 4, bias=False)
        v.ln_pre, v.transformer, v.ln_post = nn.LayerNorm(d), stack(3, 3), nn.LayerNorm(d)
        self.transformer, self.token_embedding, self.ln_final = stack(2, 4), nn.Embedding(V, d), nn.LayerNorm(d)

    def forward(self, pictures):
        v = self.visual
        x = v.conv1(pictures).flatten(2).transpose(1, 2)
        x = v.ln_pre(torch.cat([v.class_embedding.expand(len(x), 1, -1), x], 1) + v.positional_embedding)
        for block in v.transformer["resblocks"]:
            x = block(x)
        return x, v.ln_post(x)


def clip():
    model = drawn(Clip())
    torch.save(model.state_dict(), "clip.pt")
    pictures = torch.randn(1, 3, 8, 12)
    x, final = model.double()(pictures.double())
    expected("clip", inputs_embeds=F.unfold(pictures, 4, stride=4).transpose(1, 2), layers__2__resid_post=x, final=final)


# An encoder beside a decoder, each with its own embedding and config; sorted names, the decoder's first.

class Pair(nn.Module):
    def __init__(self):
        super().__init__()
        part = lambda n, heads, act, eps: nn.ModuleDict({"layers": nn.ModuleList([Block(heads, act, eps) for _ in range(n)]),
                                                         "norm": nn.LayerNorm(d, eps)})
        self.encoder, self.decoder = part(3, 3, F.relu, 1e-2), part(2, 4, F.silu, 1e-3)
        self.dec_word_embedding, self.dec_pos_embedding = nn.Embedding(V + 4, d), nn.Embedding(16, d)
        self.enc_word_embedding, self.enc_pos_embedding = nn.Embedding(V, d), nn.Embedding(16, d)
        self.dec_norm, self.enc_norm = nn.LayerNorm(d, 1e-3), nn.LayerNorm(d, 1e-2)
        self.output_projection = nn.Linear(d, V + 4)

    def forward(self, ids):
        x = self.enc_word_embedding(ids) + self.enc_pos_embedding(torch.arange(ids.shape[1]))
        for layer in self.encoder["layers"]:
            x = layer(x, False)
        return x, self.encoder["norm"](x)


def pair():
    model = folder("pair", drawn(Pair()), {
        "decoder": {"num_attention_heads": 4, "hidden_act": "silu", "layer_norm_eps": 1e-3},
        "encoder": {"num_attention_heads": 3, "hidden_act": "relu", "layer_norm_eps": 1e-2}})
    ids = torch.randint(0, V, (1, T))
    x, final = model(ids)
    expected("pair", ids=ids, layers__2__resid_post=x, final=final)


for make in (pooled, translator, reader, towers, clip, pair):
    make()
