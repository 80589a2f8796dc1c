"""PyTorch as a peer, in inference mode.

    peer_torch.py stages THREADS LAYER.npz STAGE,STAGE   the stages one by one; answers requests (serve.py)
    peer_torch.py module THREADS LAYER.npz STAGE,STAGE   torch.nn.MultiheadAttention, likewise
    peer_torch.py dump THREADS LAYER.npz OUT.npy         the weights from file to file, as one program
"""
import sys

import numpy as np
import torch


def heads_of(layer, p):
    """X W + b, split: H × T × d_k, a view."""
    packed = torch.addmm(layer["b_" + p], layer["X"], layer["W_" + p])
    return packed.view(len(packed), layer["num_heads"], -1).transpose(0, 1)


def attention_weights(layer):
    q, k = heads_of(layer, "q"), heads_of(layer, "k")
    scores = torch.matmul(q, k.transpose(1, 2))
    return torch.softmax(scores.mul_(q.shape[2] ** -0.5), dim=2)


def attention(layer, kept):
    weights = attention_weights(layer)
    head_out = torch.matmul(weights, heads_of(layer, "v"))
    output = torch.addmm(layer["b_o"], head_out.transpose(0, 1).reshape(len(layer["X"]), -1), layer["W_o"])
    return {"weights": weights, "output": output} if "weights" in kept else {"output": output}


def module_of(layer):
    """torch.nn.MultiheadAttention with the layer's numbers; its weights are (out, in)."""
    width = layer["X"].shape[1]
    module = torch.nn.MultiheadAttention(width, layer["num_heads"], batch_first=True).eval()
    module.in_proj_weight.copy_(torch.cat([layer["W_" + p].T for p in "qkv"]))
    module.in_proj_bias.copy_(torch.cat([layer["b_" + p] for p in "qkv"]))
    module.out_proj.weight.copy_(layer["W_o"].T)
    module.out_proj.bias.copy_(layer["b_o"])
    return module


def run_module(module, x, kept):
    output, weights = module(x, x, x, need_weights="weights" in kept, average_attn_weights=False)
    return {"weights": weights[0], "output": output[0]} if "weights" in kept else {"output": output[0]}


def save(path, tensor):
    np.save(path, tensor.numpy())


if __name__ == "__main__":
    command, threads, source, target = sys.argv[1:]
    torch.set_num_threads(int(threads))
    with np.load(source) as archive, torch.inference_mode():
        layer = {name: torch.from_numpy(archive[name]) for name in archive.files
                 if name != "num_heads" and (command != "dump" or name[-1] not in "vo")}
        layer["num_heads"] = int(archive["num_heads"])
        if command == "dump":
            save(target, attention_weights(layer))
        else:
            from serve import serve

            kept = target.split(",")
            if command == "stages":
                serve(lambda: attention(layer, kept), save)
            else:
                module, x = module_of(layer), layer["X"][None]
                serve(lambda: run_module(module, x, kept), save)
