"""Writes a checkpoint folder with random weights, and loads one."""
import json
import os

import numpy as np

import safetensors
from families import FAMILIES, Weights, family_of
from gated_families import BAILING_MOE_V2, GATED
from mixture_families import MIXTURES

TORCH = {"F16": "float16", "BF16": "bfloat16", "F32": "float32", "F64": "float64"}


def random_tensor(rng, tensor):
    noise = rng.standard_normal(tensor.shape)
    return {"matrix": lambda: 1.4 * noise / tensor.inputs ** 0.5,
            "embedding": lambda: 0.7 * noise,
            "position": lambda: 0.5 * noise,
            "gain": lambda: 1 + 0.3 * noise,
            "offset": lambda: 0.3 * noise,
            "bias": lambda: 0.3 * noise,
            "small bias": lambda: 0.1 * noise}[tensor.kind]()


def write_folder(folder, config, tensors, shards=1):
    """tensors: name -> (dtype, array). Several shards have an index beside them."""
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "config.json"), "w") as file:
        json.dump(config, file, indent=2)
        file.write("\n")
    if shards == 1:
        safetensors.write(os.path.join(folder, "model.safetensors"), tensors)
        return
    place, total = {}, 0
    for i, names in enumerate(np.array_split(np.array(sorted(tensors)), shards)):
        name = f"model-{i + 1:05d}-of-{shards:05d}.safetensors"
        total += safetensors.write(os.path.join(folder, name), {n: tensors[n] for n in names})
        place.update({str(n): name for n in names})
    with open(os.path.join(folder, "model.safetensors.index.json"), "w") as file:
        json.dump({"metadata": {"total_size": total}, "weight_map": place}, file, indent=2)


def known_family(config):
    """Ling 2.0 has its elder's model_type in published files: `architectures` tells it."""
    if config.get("architectures") == BAILING_MOE_V2.config["architectures"]:
        return BAILING_MOE_V2
    return family_of(config, FAMILIES + MIXTURES + GATED)


def load(folder):
    """The model of a folder."""
    config, tensors = safetensors.read_folder(folder)
    return known_family(config).model(config, Weights(tensors))
