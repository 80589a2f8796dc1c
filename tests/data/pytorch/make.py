#!/usr/bin/env python3
"""Writes the files of this folder with PyTorch itself and NumPy (1.13 and 1.24 of Debian 12), and what they
hold as NumPy sees it: NAME.expect.npz. bfloat16 is expected as float32. Run by hand; tests need neither."""

import argparse
import dataclasses
import datetime
import decimal
import fractions
import functools
import io
import json
import operator
import os
import pathlib
import pickle
import random
import re
import types
import uuid
import warnings
import zipfile
from collections import ChainMap, Counter, OrderedDict, defaultdict, deque, namedtuple

import numpy as np
import torch

warnings.filterwarnings("ignore")
HERE = os.path.dirname(os.path.abspath(__file__))
os.chdir(HERE)
torch.manual_seed(7)


def expect(name, tensors):
    arrays = {}
    for key, value in tensors.items():
        if torch.is_tensor(value):
            value = value.detach()
            value = (value.float() if value.dtype == torch.bfloat16 else value).numpy()
        arrays[key] = np.ascontiguousarray(value).reshape(value.shape)
    # With an axis more, so that a tensor without axes is no setting.
    np.savez(name + ".expect.npz", **{key: array[None] for key, array in arrays.items()})


def save(name, value, zipped):
    """Without what changes from run to run: the keys of storages are memory addresses in the old form."""
    torch.save(value, name, _use_new_zipfile_serialization=zipped)


def numbers(dtype, *shape):
    count = int(np.prod(shape))
    values = (torch.arange(count) * 7 % 23 - (0 if dtype in (torch.uint8, torch.bool) else 9)).reshape(shape)
    return (values % 3 == 0) if dtype == torch.bool else (values * (0.37 if dtype.is_floating_point else 1)).to(dtype)


DTYPES = [torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.int16,
          torch.int8, torch.uint8, torch.bool]


def views():
    tensors = OrderedDict()
    for dtype in DTYPES:
        short = str(dtype).split(".")[1]
        base = numbers(dtype, 5, 7, 3)
        tensors[short] = base
        tensors[short + ".transposed"] = base.permute(2, 0, 1)  # of the same storage
        tensors[short + ".sliced"] = base[1:4, ::2, 1]
        tensors[short + ".row"] = base[3]
        tensors[short + ".odd"] = numbers(dtype, 1, 3)
    tensors["scalar"] = torch.tensor(2.5)
    tensors["empty"] = torch.zeros(0, 4)
    tensors["expanded"] = torch.arange(4.0).expand(3, 4)
    tensors["diagonal"] = numbers(torch.float32, 6, 6).diagonal()
    tensors["last"] = numbers(torch.float32, 9)[8:]
    return tensors


class Attention(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.q_proj = torch.nn.Linear(6, 4)
        self.k_proj = torch.nn.Linear(6, 4, bias=False)
        self.register_buffer("mask", torch.ones(3, 3, dtype=torch.bool).tril())
        self.heads = 2

    def forward(self, x):
        return self.q_proj(x) @ self.k_proj(x).transpose(0, 1)


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.ModuleList([Attention(), Attention()])
        self.norm = torch.nn.LayerNorm(6)
        self.scales: "list[int]" = [1, 2]

    def forward(self, x):
        return self.norm(x)


@dataclasses.dataclass
class Config:
    n_head: int = 2
    name: str = "tiny"


for zipped, form in ((True, "zip"), (False, "old")):
    save(f"views-{form}.pt", views(), zipped)
    model = Model()
    save(f"module-{form}.pth", model, zipped)
    expect(f"module-{form}", model.state_dict())
    optimizer = torch.optim.Adam(model.parameters())
    model.norm(torch.ones(2, 6)).sum().backward()
    optimizer.step()
    compiled = OrderedDict(("_orig_mod." + key, value) for key, value in model.state_dict().items())
    save(f"checkpoint-{form}.pt", {
        "epoch": 3, "best_loss": np.float64(0.25), "state_dict": compiled, "optimizer": optimizer.state_dict(),
        "args": argparse.Namespace(lr=0.1, n_head=2, betas=(0.9, 0.999), path=None, deep={"width": 6}),
        "config": Config(), "counts": defaultdict(int, a=1), "device": torch.device("cpu"), "dtype": torch.float16,
        "size": torch.Size([2, 3]), "shared": {1, 2}}, zipped)
    expect(f"checkpoint-{form}", model.state_dict())
expect("views", views())

scripted = torch.jit.script(Model())
torch.jit.save(scripted, "script.pt")
expect("script", scripted.state_dict())

# A layer under canonical names, with its settings: what quickstart.json is.
with open(os.path.join(HERE, "..", "..", "..", "data", "quickstart.json")) as file:
    quickstart = json.load(file)
arrays = {key: np.array(value, "f8") for key, value in quickstart.items()
          if isinstance(value, list) and not isinstance(value[0], str)}
rest = {key: value for key, value in quickstart.items() if key not in arrays}
tensors = {key: torch.from_numpy(value) for key, value in arrays.items()}
save("layer-zip.pt", {**tensors, **rest}, True)
save("layer-old.pt", {**tensors, **rest}, False)
for protocol in range(6):
    with open(f"layer-{protocol}.pkl", "wb") as file:
        pickle.dump({**arrays, **rest}, file, protocol)

# NumPy's arrays of every kind.
kinds = {"f8": np.arange(12.0).reshape(3, 4), "big": np.arange(6, dtype=">f4").reshape(2, 3),
         "fortran": np.asfortranarray(np.arange(10, dtype="i4").reshape(2, 5)),
         "nested": {"half": np.arange(5, dtype="f2"), "list": [np.arange(3, dtype="u2"), np.ones(2, bool)]},
         "bytes": np.arange(256, dtype="u1"), "i8": np.arange(-3, 3)}
for protocol in (0, 2, 4, 5):
    with open(f"arrays-{protocol}.pkl", "wb") as file:
        pickle.dump(kinds, file, protocol)
expect("arrays", {"f8": kinds["f8"], "big": kinds["big"], "fortran": kinds["fortran"],
                  "nested.half": kinds["nested"]["half"], "nested.list.0": kinds["nested"]["list"][0],
                  "nested.list.1": kinds["nested"]["list"][1], "bytes": kinds["bytes"], "i8": kinds["i8"]})


# What stands beside tensors: values of the standard library, of NumPy and of PyTorch, and objects of every making.

class Slots:
    __slots__ = ("a", "b")

    def __init__(self):
        self.a, self.b = 1, "two"


class New:
    def __new__(cls, *arguments):
        return super().__new__(cls)

    def __getnewargs__(self):
        return 1, "x"


class Words(list):
    pass


class Options(dict):
    pass


Pair = namedtuple("Pair", "x y")


def beside(tensors):
    tagged = torch.arange(3.0)
    tagged.tag = "an attribute"
    values = {
        "partial": functools.partial(torch.nn.functional.gelu, approximate="tanh"), "unused": functools.partial(os.system, "x"),
        "deque": deque([1, 2], maxlen=3), "default": defaultdict(list, {"a": [1]}), "ordered": OrderedDict(a=1), "chain": ChainMap({"a": 1}),
        "counter": Counter("abca"), "date": datetime.date(2020, 1, 2), "time": datetime.time(3, 4),
        "when": datetime.datetime(2020, 1, 2, tzinfo=datetime.timezone.utc), "took": datetime.timedelta(3, 4),
        "path": pathlib.Path("/a/b"), "pure": pathlib.PurePosixPath("a"), "slots": Slots(), "new": New(), "words": Words("ab"),
        "options": Options(a=1), "pair": Pair(1, 2), "space": types.SimpleNamespace(a=1), "config": Config(),
        "args": argparse.Namespace(heads=2), "decimal": decimal.Decimal("1.5"), "fraction": fractions.Fraction(1, 3), "id": uuid.UUID(int=5),
        "complex": 1 + 2j, "range": range(3), "slice": slice(1, 2), "bytes": b"abc", "array": bytearray(b"abc"), "set": {1, 2},
        "frozen": frozenset({1}), "large": 10**30, "none": None, "pattern": re.compile("a+"),
        "random": random.Random(3), "get": operator.itemgetter(1), "type": int, "function": len, "f4": np.float32(3), "i8": np.int64(4),
        "flag": np.bool_(True), "dtype": np.dtype("float32"), "fields": np.dtype([("a", "f4")]), "class": np.float32, "text": np.str_("abc")}
    if tensors:
        values |= {"size": torch.Size([2, 3]), "device": torch.device("cuda", 1), "torch_dtype": torch.bfloat16, "layout": torch.strided,
                   "scheduler": torch.optim.lr_scheduler.StepLR(torch.optim.SGD([torch.ones(2)], 0.1), 5).state_dict()}
    weights = OrderedDict(w=numbers(torch.float32, 2, 3), tagged=tagged, own=torch.nn.Parameter(numbers(torch.float32, 4)))
    return weights, values


weights, values = beside(True)
for zipped, form in ((True, "zip"), (False, "old")):
    save(f"beside-{form}.pt", {"state_dict": weights, "extra": values}, zipped)
arrays = {name: tensor.detach().numpy() for name, tensor in weights.items()}
for protocol in range(6):
    with open(f"beside-{protocol}.pkl", "wb") as file:
        values = beside(False)[1]
        if protocol < 2:
            del values["slots"]  # which these protocols have not
        pickle.dump({"model": arrays, "hparams": values}, file, protocol)
expect("beside", weights)

# A folder in shards, as Hugging Face's libraries wrote it.
os.makedirs("shards", exist_ok=True)
state = model.state_dict()
weights = {}
for i in (0, 1):
    part = {key: value for key, value in state.items() if (f"layers.{i}" in key) or (i == 1 and "norm" in key)}
    file = f"pytorch_model-0000{i + 1}-of-00002.bin"
    save(os.path.join("shards", file), part, True)
    weights.update({key: file for key in part})
with open("shards/pytorch_model.bin.index.json", "w") as file:
    json.dump({"metadata": {}, "weight_map": weights}, file)
with open("shards/config.json", "w") as file:
    json.dump({"num_attention_heads": 2}, file)
torch.save({"lr": 1}, "shards/training_args.bin")
expect("shards", state)

# Optimizers beside a model under keys of their own, as fairseq and OpenNMT have them; one that is pickled whole. Arrays
# without elements in the forms that write no bytes. A TorchScript module whose weights became constants.
parameter = torch.nn.Parameter(numbers(torch.float32, 2, 3))
optimizer = torch.optim.Adam([parameter])
parameter.grad = torch.ones(2, 3)
optimizer.step()
weights = {"decoder.w": numbers(torch.float32, 3, 4), "decoder.b": numbers(torch.float16, 4)}
head = {"0.weight": numbers(torch.float32, 2, 2)}
for zipped, form in ((True, "zip"), (False, "old")):
    save(f"optimizers-{form}.pt", {"model": weights, "generator": head, "last_state": optimizer.state_dict(),
                                   "optim": {"adam": {"exp_avg": [torch.ones(3)]}}, "whole": [optimizer]}, zipped)
expect("optimizers", {f"model.{k}": v for k, v in weights.items()} | {f"generator.{k}": v for k, v in head.items()})
for protocol in (0, 2):
    with open(f"empty-{protocol}.pkl", "wb") as file:
        pickle.dump({"none": np.zeros((0, 3), np.float32), "some": np.arange(4.0)}, file, protocol)
expect("empty", {"none": np.zeros((0, 3), np.float32), "some": np.arange(4.0)})
linear = torch.nn.Linear(3, 4).eval()
linear.load_state_dict({"weight": numbers(torch.float32, 4, 3), "bias": numbers(torch.float32, 4)})
torch.jit.freeze(torch.jit.script(torch.nn.Sequential(linear).eval())).save("frozen.pt")
expect("frozen", {"CONSTANTS.c0": linear.weight, "CONSTANTS.c1": linear.bias})
