#!/usr/bin/env python3
"""Wrong ports, fifth part: logits in other places and behind samplers, results of the layer before, single weights of another
layer, norms of the embedding, four norms in code for two, two mistakes in one layer, and one layer's mistake seen in logits alone.

    /usr/bin/python3 tests/models/fifth_threads.py PROGRAM MODELS [--only WORD] [--show] [--keep FOLDER] [-j N]
"""
import copy
import sys

import numpy as np

from forward import ACTIVATIONS, Linear, Norm
from thread_ports import each, main, thread


# The logits -------------------------------------------------------------------------------------------

def logits_of(port):
    port.run(port.text)
    return port.s["logits"]


@thread("no thread", "head.rows", "llama2-gqa", "own")
def rows_one_later(port):
    """The row of the first token is that of an empty buffer."""
    own = logits_of(port)
    return {"logits": np.concatenate([np.zeros_like(own[:1]), own[:-1]])}


@thread("huggingface/transformers", "head.rows", "gpt2", "own")
def rows_one_earlier(port):
    """Shifted as for the loss, and filled up with the last row again."""
    own = logits_of(port)
    return {"logits": np.concatenate([own[1:], own[-1:]])}


@thread("no thread", "head.columns", "qwen3-untied", "own")
def columns_one_further(port):
    return {"logits": np.roll(logits_of(port), 1, -1)}


@thread("ggml-org/llama.cpp", "head.repetition", "llama2-gqa", "own")
def repetition_penalty(port):
    own = logits_of(port)[-1]
    seen = np.unique(port.text)
    own[seen] = np.where(own[seen] > 0, own[seen] / 1.1, own[seen] * 1.1)
    return {"logits": own}


@thread("huggingface/transformers", "", "gpt2", "own", says="after a sampler, which hid 12 of a row's")
def scores_behind_top_k(port):
    """generate's `scores`, of top_k, instead of its `logits`."""
    own = logits_of(port)[-1]
    own[np.argsort(own)[:12]] = -np.inf
    return {"logits": own}


@thread("vllm-project/vllm", "", "qwen3-untied", "own", says="after a sampler")
def forbidden_tokens(port):
    own = logits_of(port)
    own[:, [3, 4, 9]] = np.finfo(np.float32).min
    return {"logits": own}


# Buffers, weights and norms of other places -------------------------------------------------------------

def of_layer_before(port, result):
    last = {}

    def shape(b, t, x, A, F):
        a = A(b.n1(x))
        used, last["attention"] = (last.get("attention", a) if result == "attention" else a), a
        r = t("residual", x + used)
        f = F(b.n2(r))
        used, last["mlp"] = (last.get("mlp", f) if result == "mlp" else f), f
        return r + used
    for w in port.of:
        w["shape"] = shape


@thread("no thread", "block.attention.previous", "llama2-gqa", "states everything", layers=[1, 2, 3])
def attention_of_the_layer_before(port):
    of_layer_before(port, "attention")


@thread("no thread", "block.mlp.previous", "gpt2", "states", layers=[1, 2])
def feed_forward_of_the_layer_before(port):
    of_layer_before(port, "mlp")


@thread("no thread", "block.weights.other", "qwen3-untied", "states everything", layers=[2])
def query_of_the_layer_before(port):
    port.blocks[2].attention.q = copy.deepcopy(port.original[1].attention.q)


@thread("no thread", "block.weights.other", "llama2-gqa", "states", layers=[1])
def down_of_layer_zero(port):
    port.blocks[1].feed_forward.out = copy.deepcopy(port.original[0].feed_forward.out)


@thread("no thread", "embed.norm.other", "bert", "states logits")
def embedding_normed_by_a_layer(port):
    port.at["embed_norm"] = port.blocks[0].n1


@thread("ml-explore/mlx-examples", "block_norm.other", "gemma2", "states logits")
def four_norms_as_two(port):
    for _, b in each(port):
        b.n2, b.n3, b.n4 = (lambda x: x), b.n2, (lambda x: x)


@thread("no thread", "", "gpt2", "own", says="resid_post was saved from another step: it is residual here")
def states_between_the_two_sums(port):
    port.run(port.text)
    return {f"model.layers.{n}": port.s[f"layers.{n}.residual"] for n in range(len(port.blocks))}


# Two mistakes, and one of one layer -----------------------------------------------------------------------

@thread("no thread", "mlp.activation", "llama2-gqa", "states", says="input_norm.eps")
def activation_and_epsilon(port):
    for _, b in each(port):
        b.feed_forward.activation = ACTIVATIONS["gelu"]
        b.n1 = Norm(b.n1.kind, 1e-5, b.n1.weight)


@thread("no thread", "mlp.activation", "llama2-gqa", "logits", says="in layer 2 alone")
def activation_of_one_layer(port):
    port.blocks[2].feed_forward.activation = ACTIVATIONS["gelu"]


@thread("no thread", "bias.missing.q bias.missing", "qwen2", "logits last_token", says="in layer 1 alone")
def query_bias_of_one_layer(port):
    port.blocks[1].attention.q = Linear(port.blocks[1].attention.q.weight)


@thread("no thread", "block_norm.missing", "gpt2", "logits", says="in layer 1 alone")
def norm_of_one_layer(port):
    port.blocks[1].n2 = lambda x: x


if __name__ == "__main__":
    sys.exit(main())
