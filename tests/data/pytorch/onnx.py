#!/usr/bin/env python3
"""Writes onnx/NAME.onnx with torch.onnx.export (PyTorch 1.13 of Debian 12), and beside it NAME.npz: X, and the weights and the
output that PyTorch itself computes. Run by hand; tests need no PyTorch.

One attention layer each, as models are written, in the operators that the exporter makes of them: views, splits and chunks of a
fused product, einsum, scales by products, quotients and roots, masks by where, masked_fill and sums, turns, norms of heads."""
import math
import os
import warnings

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

warnings.filterwarnings("ignore")
FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "onnx")
D, H, T = 12, 3, 5
W = D // H


class Layer(nn.Module):
    def __init__(self, split="view", scale="div", mask=None, kv=H, bias=True, kind=None):
        super().__init__()
        self.split, self.scale, self.mask, self.kv, self.kind = split, scale, mask, kv, kind
        if split == "view":
            self.q, self.k, self.v = nn.Linear(D, D, bias), nn.Linear(D, kv * W, bias), nn.Linear(D, kv * W, bias)
        elif split == "keras":
            self.q, self.k, self.v = (nn.Parameter(torch.zeros(D, H, W)) for _ in range(3))
            self.bq, self.bk, self.bv = (nn.Parameter(torch.zeros(H, W)) for _ in range(3))
        elif split == "conv":
            self.q, self.k, self.v = (nn.Conv1d(D, D, 1) for _ in range(3))
        elif split == "falcon":
            self.qkv = nn.Linear(D, D + 2 * W)
        else:
            self.qkv = nn.Linear(D, 3 * D)
        self.o = nn.Linear(D, D, bias)
        if kind == "qk":
            self.qn, self.kn = nn.Parameter(torch.zeros(W)), nn.Parameter(torch.zeros(W))
        self.register_buffer("below", torch.ones(16, 16).tril().bool()[None, None])
        self.register_buffer("minus", torch.full((16, 16), float("-inf")).triu(1))
        self.register_buffer("inverse", 1.0 / 10000 ** (torch.arange(0, W, 2).float() / W))

    def heads(self, x):
        """q, k, v: batch, heads, tokens, width."""
        B, T, _ = x.shape
        whole = self.qkv(x) if hasattr(self, "qkv") else None
        four = lambda y: y.reshape(B, T, -1, W).transpose(1, 2)
        if self.split == "view":
            return [four(f(x)) for f in (self.q, self.k, self.v)]
        if self.split == "keras":
            return [(torch.einsum("abc,cde->abde", x, w) + b).permute(0, 2, 1, 3)
                    for w, b in ((self.q, self.bq), (self.k, self.bk), (self.v, self.bv))]
        if self.split == "conv":
            return [f(x.transpose(1, 2)).view(B, H, W, T).transpose(2, 3) for f in (self.q, self.k, self.v)]
        if self.split == "split":
            return [four(y) for y in whole.split(D, 2)]
        if self.split == "slices":
            return [four(y) for y in (whole[:, :, :D], whole[:, :, D:2 * D], whole[:, :, 2 * D:])]
        if self.split == "chunk":
            return whole.view(B, T, H, 3 * W).permute(0, 2, 1, 3).chunk(3, -1)
        if self.split == "unbind":
            return whole.reshape(B, T, 3, H, W).permute(2, 0, 3, 1, 4).unbind(0)
        if self.split == "between":
            y = whole.view(B, T, H, 3, W)
            return [y[..., i, :].transpose(1, 2) for i in range(3)]
        y = whole.view(B, T, H + 2, W)  # falcon
        return [part.transpose(1, 2) for part in (y[..., :-2, :], y[..., [-2], :], y[..., [-1], :])]

    def turned(self, x):
        angle = torch.arange(x.shape[2]).float()[:, None] * self.inverse
        if self.kind == "neighbours":
            a, b, c, s = x[..., ::2], x[..., 1::2], angle.cos(), angle.sin()
            return torch.stack((a * c - b * s, b * c + a * s), -1).flatten(-2)
        angle = torch.cat((angle, angle), -1)
        a, b = x.chunk(2, -1)
        return x * angle.cos() + torch.cat((-b, a), -1) * angle.sin()

    def forward(self, x):
        B, T, _ = x.shape
        q, k, v = self.heads(x)
        if self.kind in ("halves", "neighbours"):
            q, k = self.turned(q), self.turned(k)
        if self.kind == "qk":
            rms = lambda y, w: w * (y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + 1e-6))
            q, k = rms(q, self.qn), rms(k, self.kn)
        if self.kv != H:
            k, v = (y[:, :, None].expand(B, 1, H, T, W).reshape(B, H, T, W) for y in (k, v))
        if self.scale == "roots":
            q, k = q / math.sqrt(math.sqrt(W)), k * W ** -0.25
        if self.scale == "q":
            q = q * W ** -0.5
        if self.kind == "bmm":
            a = torch.bmm(q.reshape(B * H, T, W), k.reshape(B * H, T, W).transpose(1, 2)).view(B, H, T, T)
        elif self.kind == "einsum":
            a = torch.einsum("bhqd,bhkd->bhqk", q, k)
        else:
            a = q @ k.transpose(-1, -2)
        if self.scale == "div":
            a = a / math.sqrt(W)
        if self.scale == "size":
            a = a / torch.sqrt(torch.tensor(k.size(-1), dtype=a.dtype))
        if self.scale == "full":
            a = a / torch.full([], v.size(-1) ** 0.5, dtype=a.dtype)
        if self.kind == "cap":
            a = 20 * torch.tanh(a / 20)
        if self.mask == "where":
            a = torch.where(self.below[:, :, :T, :T], a, torch.tensor(torch.finfo(a.dtype).min))
        if self.mask == "fill":
            a = a.masked_fill(~self.below[:, :, :T, :T], float("-inf"))
        if self.mask == "sum":
            a = a + self.minus[:T, :T]
        if self.mask == "tril":
            a = a.masked_fill(torch.ones(T, T).tril() == 0, -1e9)
        if self.mask == "window":
            i = torch.arange(T)
            far = i[:, None] - i[None]
            a = a.masked_fill((far < 0) | (far >= 3), float("-inf"))
        w = F.softmax(a, -1)
        return self.o((w @ v).transpose(1, 2).reshape(B, T, D)), w


class Torch(nn.Module):
    def __init__(self, first):
        super().__init__()
        self.mha = nn.MultiheadAttention(D, H, batch_first=not first)

    def forward(self, x):
        return self.mha(x, x, x, average_attn_weights=False)


CASES = {
    "view-where": (11, True, lambda: Layer(mask="where")), "view-fill": (13, False, lambda: Layer(mask="fill", bias=False)),
    "view-sum": (14, True, lambda: Layer(mask="sum", scale="q")), "view-tril": (17, True, lambda: Layer(mask="tril", scale="roots")),
    "view-window": (16, True, lambda: Layer(mask="window", scale="size")), "grouped": (12, True, lambda: Layer(kv=1, scale="full")),
    "keras": (13, False, lambda: Layer("keras", "q")), "conv": (13, True, lambda: Layer("conv", kind="einsum")),
    "split": (11, False, lambda: Layer("split", "full", "where")), "slices": (17, False, lambda: Layer("slices")),
    "chunk": (13, True, lambda: Layer("chunk")), "unbind": (15, True, lambda: Layer("unbind", "q")),
    "between": (14, False, lambda: Layer("between")), "falcon": (17, True, lambda: Layer("falcon", kv=1)),
    "bmm": (11, True, lambda: Layer(scale="q", kind="bmm")), "halves": (17, True, lambda: Layer(kind="halves", mask="fill", bias=False)),
    "neighbours": (16, False, lambda: Layer(kind="neighbours", mask="where")), "heads-normed": (17, True, lambda: Layer(kind="qk")),
    "capped": (13, True, lambda: Layer(kind="cap", mask="sum")), "torch": (13, True, lambda: Torch(False)),
    "torch-first": (17, False, lambda: Torch(True)),
}


def main():
    os.makedirs(FOLDER, exist_ok=True)
    for seed, (name, (opset, dynamic, make)) in enumerate(CASES.items()):
        torch.manual_seed(seed)
        model = make().eval()
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.copy_(0.4 * torch.randn_like(parameter))
            x = torch.randn(T, 1, D) if name == "torch-first" else torch.randn(1, T, D)
            y, w = model(x)
        torch.onnx.export(model, x, os.path.join(FOLDER, name + ".onnx"), opset_version=opset, input_names=["x"], output_names=["y", "w"],
                          dynamic_axes={"x": {0: "batch", 1: "length"}} if dynamic else None)
        if name == "torch-first":
            x, y = x.transpose(0, 1), y.transpose(0, 1)
        np.savez(os.path.join(FOLDER, name + ".npz"), X=x.numpy(), output=y.numpy(), weights=w.numpy())


if __name__ == "__main__":
    main()
