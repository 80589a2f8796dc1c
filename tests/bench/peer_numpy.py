"""NumPy as a peer: what somebody would write who knows it well, in float32, with as few copies as possible.

    peer_numpy.py serve LAYER.npz STAGE,STAGE   answers requests (serve.py)
    peer_numpy.py dump LAYER.npz OUT.npy        the weights from file to file, as one program
    peer_numpy.py plain LAYER.npz OUT.npy       likewise, the formula as it is usually written: a new array a step
"""
import sys

import numpy as np


def heads_of(layer, p):
    """X W + b, split: H × T × d_k, a view."""
    packed = layer["X"] @ layer["W_" + p]
    packed += layer["b_" + p]
    return packed.reshape(len(packed), int(layer["num_heads"]), -1).transpose(1, 0, 2)


def attention_weights(layer):
    q, k = heads_of(layer, "q"), heads_of(layer, "k")
    weights = q @ k.transpose(0, 2, 1)  # scores; all that follows is done in place
    weights *= np.float32(1 / np.sqrt(q.shape[2]))
    weights -= weights.max(axis=2, keepdims=True)
    np.exp(weights, out=weights)
    weights /= weights.sum(axis=2, keepdims=True)
    return weights


def plain_weights(layer):
    q, k = heads_of(layer, "q"), heads_of(layer, "k")
    scaled = q @ k.transpose(0, 2, 1) * np.float32(1 / np.sqrt(q.shape[2]))
    exp = np.exp(scaled - scaled.max(axis=2, keepdims=True))
    return exp / exp.sum(axis=2, keepdims=True)


def attention(layer, kept):
    weights = attention_weights(layer)
    head_out = weights @ heads_of(layer, "v")
    output = head_out.transpose(1, 0, 2).reshape(len(layer["X"]), -1) @ layer["W_o"]
    output += layer["b_o"]
    return {"weights": weights, "output": output} if "weights" in kept else {"output": output}


if __name__ == "__main__":
    command, source, target = sys.argv[1:]
    with np.load(source) as archive:
        layer = {name: archive[name] for name in archive.files if command == "serve" or name[-1] not in "vo"}
    if command in ("dump", "plain"):
        np.save(target, attention_weights(layer) if command == "dump" else plain_weights(layer))
    else:
        from serve import serve

        serve(lambda: attention(layer, target.split(",")), np.save)
