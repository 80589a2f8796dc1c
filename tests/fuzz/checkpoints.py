#!/usr/bin/env python3
"""Seeds of the target `checkpoint`: tiny whole models, in the form that checkpoint.cpp reads.

    python3 tests/fuzz/checkpoints.py FOLDER
"""
import json
import os
import struct
import sys

D, H, FF, V = 4, 2, 6, 5


def llama():
    yield "model.embed_tokens.weight", (V, D)
    at = "model.layers.0."
    for name in ("input_layernorm", "post_attention_layernorm"):
        yield at + name + ".weight", (D,)
    for letter, rows in (("q", D), ("k", D // 2), ("v", D // 2), ("o", D)):
        yield f"{at}self_attn.{letter}_proj.weight", (rows, D)
    yield at + "mlp.gate_proj.weight", (FF, D)
    yield at + "mlp.up_proj.weight", (FF, D)
    yield at + "mlp.down_proj.weight", (D, FF)
    yield "model.norm.weight", (D,)
    yield "lm_head.weight", (V, D)


def gpt2():
    yield "transformer.wte.weight", (V, D)
    yield "transformer.wpe.weight", (8, D)
    at = "transformer.h.0."
    for name in ("ln_1", "ln_2"):
        yield at + name + ".weight", (D,)
        yield at + name + ".bias", (D,)
    for name, rows, columns in (("attn.c_attn", D, 3 * D), ("attn.c_proj", D, D), ("mlp.c_fc", D, FF),
                                ("mlp.c_proj", FF, D)):
        yield at + name + ".weight", (rows, columns)
        yield at + name + ".bias", (columns,)
    yield "transformer.ln_f.weight", (D,)
    yield "transformer.ln_f.bias", (D,)


def bert():
    for name, rows in (("word_embeddings", V), ("position_embeddings", 8), ("token_type_embeddings", 2)):
        yield f"bert.embeddings.{name}.weight", (rows, D)
    yield "bert.embeddings.LayerNorm.weight", (D,)
    yield "bert.embeddings.LayerNorm.bias", (D,)
    at = "bert.encoder.layer.0."
    for name, rows, columns in (("attention.self.query", D, D), ("attention.self.key", D, D),
                                ("attention.self.value", D, D), ("attention.output.dense", D, D),
                                ("intermediate.dense", FF, D), ("output.dense", D, FF)):
        yield at + name + ".weight", (rows, columns)
        yield at + name + ".bias", (rows,)
    for name in ("attention.output.LayerNorm", "output.LayerNorm"):
        yield at + name + ".weight", (D,)
        yield at + name + ".bias", (D,)


CONFIGS = {
    "llama": {"model_type": "llama", "num_attention_heads": H, "num_key_value_heads": 1, "hidden_size": D,
              "intermediate_size": FF, "num_hidden_layers": 1, "vocab_size": V, "rms_norm_eps": 1e-5,
              "hidden_act": "silu", "rope_theta": 1e4},
    "gpt2": {"model_type": "gpt2", "n_head": H, "n_embd": D, "n_layer": 1, "vocab_size": V},
    "bert": {"model_type": "bert", "num_attention_heads": H, "hidden_size": D, "num_hidden_layers": 1,
             "hidden_act": "gelu", "layer_norm_eps": 1e-12},
}


def safetensors(shapes):
    header, data = {}, b""
    for name, shape in shapes:
        count = 1
        for length in shape:
            count *= length
        values = struct.pack(f"<{count}f", *(((i * 7 + len(name)) % 11 - 5) / 8 for i in range(count)))
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [len(data), len(data) + len(values)]}
        data += values
    text = json.dumps(header, separators=(",", ":")).encode()
    return header, struct.pack("<Q", len(text)) + text + data


def main():
    folder = sys.argv[1]
    os.makedirs(folder, exist_ok=True)
    for name, shapes in (("llama", llama()), ("gpt2", gpt2()), ("bert", bert())):
        header, file = safetensors(list(shapes))
        config = json.dumps(CONFIGS[name]).encode()
        index = json.dumps({"weight_map": {key: "a.safetensors" for key in header}}).encode()
        for ending, between in (("", b""), ("-sharded", index)):
            with open(os.path.join(folder, name + ending), "wb") as out:
                out.write(config + b"\0" + between + b"\0" + file)


main()
