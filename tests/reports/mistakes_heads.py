"""How heads are split and joined, how fused weights lie, biases."""
import numpy as np

from report import report


def reshaped(p):
    return lambda x, heads, letter: x.reshape(x.shape[0], heads, x.shape[1], -1)


@report("hyunwoongko/transformer#15 bentrevett/pytorch-seq2seq#148", r"heads\.(resh|plain|split|view|unsplit)", "plain vit")
def split_without_transposing(p):
    "reshapes (T, H d) to (H, T, d) without a transpose"
    p.split = reshaped(p)


@report("649453932/Chinese-Text-Classification-Pytorch#53 reczoo/FuxiCTR#30",
        r"heads\.(resh|plain|split|view|unmerged|unsplit)", "vit plain")
def split_and_joined_without_transposing(p):
    "reshapes (T, H d) to (H, T, d) and back, without a transpose"
    p.split = reshaped(p)
    p.merge = lambda z: z.reshape(z.shape[0], z.shape[2], -1)


@report("jadore801120/attention-is-all-you-need-pytorch#7 649453932/Chinese-Text-Classification-Pytorch#10 "
        "jsbaan/transformer-from-scratch#6 ajhalthor/Transformer-Neural-Network#8", r"heads\.unmerged",
        "plain vit decoder bert")
def joined_without_transposing(p):
    "reshapes (H, T, d) to (T, H d) without a transpose"
    p.merge = lambda z: z.reshape(z.shape[0], z.shape[2], -1)


@report("awslabs/slapo#46", r"weight\.order\.per_head", "gpt2")
def fused_per_head(p):
    "reads the fused weight as each head's q, k and v, but it lies as thirds"
    for name in ("W_qkv", "b_qkv"):
        parts = getattr(p, name).reshape(-1, p.H, 3, p.d_k)
        for i, letter in enumerate("qkv"):
            part = parts[:, :, i].reshape(-1, p.H * p.d_k)
            setattr(p, name[0] + "_" + letter, part if name[0] == "W" else part[0])


@report("sbryngelson/ANEForge#253 EricLBuehler/candle-vllm#167", r"bias\.missing", "qwen")
def no_biases(p):
    "leaves out the biases of q, k and v"
    p.b_q = p.b_k = p.b_v = None


@report("aladdinpersson/Machine-Learning-Collection#165", r"heads\.unmerged", "plain")
def classic(p):
    "reshapes what matmul gave, heads first, to (T, H d)"
    p.merge = lambda z: z.reshape(z.shape[0], z.shape[2], -1)


@report("rasbt/LLMs-from-scratch#857", r"weight\.transposed", "vit")
def einsum_over_the_wrong_axis(p):
    "multiplies from the right by W_q, W_k and W_v of (out, in)"
    p.W_q, p.W_k, p.W_v = p.W_q.T, p.W_k.T, p.W_v.T


@report("AutoGPTQ/AutoGPTQ#139", r"(weight|output)\.transposed", "gpt2")
def transposed_output(p):
    "takes the output projection of Conv1D for that of a Linear"
    p.W_o = p.W_o.T
