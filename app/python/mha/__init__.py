"""Every step of multi-head attention, as NumPy arrays.

    import mha
    alpha = mha.run("data/induction", layer=1, X=x)["weights"]        # (H, T, S)
    y = mha.run({"X": x, "W_q": W_q, "W_k": W_k, "W_v": W_v}, num_heads=2, causal=True)["output"]
    third = mha.run("data/bard-llama", text="To be, or not")["layers.3.weights"]

Names of tensors, settings and stages are those of the program: mha-inspect-formats(5),
mha-inspect-stages(7).
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Optional, Union

import numpy as np
import numpy.typing as npt

from . import _core
from ._arrays import (
    array, dtype_name, flag, is_scalar, is_words, json_text, kept, path, rows_of_ids, setting, text_of, whole, word, words,
)
from ._core import Error, __version__
from ._errors import StageError, Warning, key_of, shown, stage_named, warn_of
from .diagnose import Cause, ComparedStage, Differences, Finding, Findings, PlaceDifferences, StageDifference
from .layer import Layer, stream
from .model import Model, Names, Patch, Prediction, Run, Tokens, _names

__all__ = [
    "Cache",
    "Cause",
    "ComparedStage",
    "Differences",
    "Error",
    "Finding",
    "Findings",
    "Layer",
    "Model",
    "Patch",
    "PlaceDifferences",
    "Prediction",
    "Run",
    "Setting",
    "Stage",
    "StageDifference",
    "StageError",
    "Tensor",
    "Tokens",
    "Warning",
    "__version__",
    "layers",
    "load",
    "run",
    "settings",
    "stages",
    "stream",
    "tensors",
]

Source = Union[str, "os.PathLike[str]", Mapping[str, Any]]
Take = Callable[[str, Any], tuple[npt.NDArray[Any], str]]


class Stage(NamedTuple):
    """A row of the stage table."""

    name: str
    letters: tuple[str, ...]
    """The shape, in letters: T queries, S keys, H heads …"""
    value: str
    """The formula."""
    text: str
    part: str
    """When a layer has it."""


class Setting(NamedTuple):
    """A row of the table of settings."""

    name: str
    values: str
    text: str
    aliases: tuple[str, ...]


class Tensor(NamedTuple):
    """A row of the table of tensors."""

    name: str
    shape: str
    text: str
    aliases: tuple[str, ...]


class Cache(Mapping[str, npt.NDArray[Any]]):
    """The computed stages: arrays by name, in the order of the computation.

    Stages of a single layer are accessed by name, ``cache["weights"]``; those of several layers also by layer:
    ``cache["layers.3.weights"]`` or ``cache["weights", 3]``, where ``-1`` is the last layer. Other tools' names also work:
    ``cache["pattern"]``, ``cache["blocks.3.attn.hook_pattern"]``. Arrays keep their memory and outlive the cache.
    """

    def __init__(self, title: str, computed: list[tuple[str, str, dict[str, npt.NDArray[Any]], list[tuple[bool, str]]]]):
        self.title: str = title
        """The first source."""
        self.layers: tuple[str, ...] = tuple(id for id, *_ in computed if id)
        """The layers' numbers or names; () for a single layer without either."""
        self.naming: str = computed[0][1] if computed else ""
        """The model family whose tensor names were recognised."""
        self.notes: tuple[str, ...] = tuple(dict.fromkeys(text for *_, notes in computed for _, text in notes))
        """Silent assumptions, ignored tensors, and doubts."""
        self._layers = {id: stages for id, _, stages, _ in computed}
        several = len(computed) > 1
        self._arrays = {
            f"layers.{id}.{name}" if several and id else name: array
            for id, stages in self._layers.items()
            for name, array in stages.items()
        }

    def _find(self, name: str) -> str:
        if name in self._arrays:
            return name
        # After "layers.3." or "blocks.3.attn." follows the stage's own name or another tool's.
        id = next((id for id in sorted(self.layers, key=len, reverse=True) if name.startswith(f"layers.{id}.")), None)
        number = re.search(r"(?:^|\.)(\d+)\.", name)
        from_end = re.match(r"layers\.(-\d+)\.", name)
        if id is None and from_end and -int(from_end[1]) <= len(self.layers):
            id = self.layers[int(from_end[1])]
        elif id is None:
            match = from_end or number
            id = match[1] if match else None
        stage = stage_named(name)
        if id is not None and id not in self._layers:
            raise StageError(f"{name}: there is no layer {id} (available: {', '.join(self.layers) or 'one without a number'})")
        if id is None and stage in self._arrays:
            return stage
        if id is None and len(self._layers) > 1:
            matches = [name for name in self._arrays if name.rsplit(".", 1)[-1] == stage]
            if len(matches) == 1:
                return matches[0]
            raise StageError(f"{name}: which layer? For example layers.{self.layers[0]}.{stage}")
        key = f"layers.{id}.{stage}" if len(self._layers) > 1 else stage
        if key not in self._arrays:
            available = self._layers[id] if id is not None else self._arrays
            raise StageError(f"{name}: {stage} was not requested, or this layer lacks it (available: {', '.join(available)})")
        return key

    def __getitem__(self, name: Union[str, tuple[str, int]]) -> npt.NDArray[Any]:
        return self._arrays[self._find(word("the stage", key_of(name)))]

    def __contains__(self, name: object) -> bool:
        try:
            return self._find(key_of(name)) in self._arrays
        except Error:
            return False

    # Caches are equal only if identical: comparing arrays would be ambiguous.
    __eq__ = object.__eq__
    __hash__ = object.__hash__

    def get(self, name: Any, default: Any = None) -> Any:
        return self[name] if name in self else default

    def __iter__(self) -> Iterator[str]:
        return iter(self._arrays)

    def __len__(self) -> int:
        return len(self._arrays)

    def __repr__(self) -> str:
        of = f", layers {', '.join(self.layers)}" if self.layers else ""
        return f"<mha.Cache of {self.title}{of}: {len(self)} stages>"


def _flat(values: Mapping[str, Any], before: str = "") -> dict[str, Any]:
    """Joins nested names by dots and drops None."""
    flat: dict[str, Any] = {}
    for name, value in values.items():
        if not isinstance(name, str):
            raise Error(f"{shown(name)} is not a name of a tensor or a setting: a text expected")
        if isinstance(value, Mapping):
            flat.update(_flat(value, f"{before}{name}."))
        elif value is not None:
            flat[f"{before}{name}"] = value
    return flat


def _config(config: Mapping[str, Any]) -> dict[str, str]:
    """config.json as the library reads it: members of objects joined by dots, lists as "a,b", a list of one as "[a]"."""
    flat: dict[str, str] = {}

    def put(name: str, value: Any) -> None:
        if isinstance(value, Mapping):
            for key, member in value.items():
                put(f"{name}.{key}" if name else str(key), member)
        elif isinstance(value, (list, tuple, np.ndarray)) and np.ndim(value) > 0:
            text = ",".join(json_text(element) for element in value)
            flat[name] = f"[{text}]" if len(value) == 1 else text
        else:
            flat[name] = json_text(value)

    put("", config)
    return flat


def _memory(
    name: str, values: Mapping[str, Any], config: Optional[Mapping[str, Any]], take: Take = array
) -> _core.Memory:
    memory = _core.Memory.empty()
    memory.name = name
    tensors, scalars, labels = [], [], []
    for key, value in _flat(values).items():
        if is_words(value):
            labels.append((key, list(value)))
        elif is_scalar(value):
            scalars.append((key, text_of(value)))
        else:
            tensors.append((key, take(key, value)))
    memory.tensors, memory.scalars, memory.labels = tensors, scalars, labels
    if config is not None:
        memory.config = _config(config)
    return memory


def _sources(
    source: Union[Source, Sequence[Source]], config: Optional[Mapping[str, Any]], take: Take = array
) -> tuple[list[str], list[_core.Memory]]:
    """The files, and the dictionaries with their config."""
    if not isinstance(source, (str, os.PathLike, Mapping, Sequence)) or isinstance(source, (bytes, bytearray)):
        raise Error(f"{shown(source)} is not a source: a file, a checkpoint folder or a dictionary of arrays expected")
    given = [source] if isinstance(source, (str, os.PathLike, Mapping)) else list(source)
    memory = [_memory("dict", one, config, take) for one in given if isinstance(one, Mapping)]
    return [path("a source", one) for one in given if not isinstance(one, Mapping)], memory


def _layer(layer: Any) -> str:
    """The choice of layers: a number, a name, "0-3", "all", or a list of numbers."""
    if layer is None or isinstance(layer, str):
        return layer or ""
    given = list(layer) if isinstance(layer, Iterable) and not isinstance(layer, (bytes, Mapping)) else [layer]
    if not given:
        raise Error("layer: the list is empty; name some layers, or leave it out")
    return ",".join(str(whole("layer", one, None)) for one in given)


def _request(
    source: Union[Source, Sequence[Source]],
    arguments: Mapping[str, Any],
    take: Take,
    named: Mapping[str, Any],
) -> _core.Request:
    """The arguments of run() and load(): ``named`` are their own parameters; ``take`` converts values for the library."""
    request = _core.Request.empty()
    bound, settings = [], []
    config, text, ids, bos = named["config"], named["text"], named["ids"], named["bos"]
    tokens, key_tokens = named["tokens"], named["key_tokens"]
    config_dict = config if isinstance(config, Mapping) else None
    files, memory = _sources(source, config_dict, take)
    if config_dict is not None and not memory:
        memory.append(_memory("config", {}, config_dict))
    for name, value in arguments.items():
        if value is None:
            continue
        if _core.is_setting(name):
            settings.append((name, setting(name, value)))
        elif isinstance(value, (str, os.PathLike)):
            files.append(f"{name}={os.fspath(value)}")
        elif is_scalar(value):
            setting(name, value)
        else:
            bound.append((name, take(name, value)))
    labels = {"tokens": tokens, "key_tokens": key_tokens}
    listed = {
        key: words(key, value, "a label for each")
        for key, value in labels.items()
        if value is not None and not isinstance(value, str)
    }
    if listed:
        memory.append(_memory("argument", listed, None))
    request.tokens = tokens if isinstance(tokens, str) else ""
    request.key_tokens = key_tokens if isinstance(key_tokens, str) else ""
    request.sources, request.memory, request.bound, request.settings = files, memory, bound, settings
    request.layer = _layer(named["layer"])
    if text is not None:
        request.texts = words("text", text, "a text, or a list of them")
        if not request.texts:
            raise Error("text: the list has no texts")
    if ids is not None:
        rows, request.batch = rows_of_ids(ids)
        request.ids = [",".join(map(str, row)) for row in rows]
    request.dtype = dtype_name(named["dtype"])
    request.naming, request.prefix = path("naming", named["naming"]), word("prefix", named["prefix"])
    request.same_x, request.special = flag("same_x", named["same_x"]), flag("special", named["special"])
    request.config = "" if config is None or config_dict is not None else path("config", config)
    request.bos = None if bos is None else flag("bos", bos)
    return request


#: Defaults of run() other than None.
_DEFAULTS: dict[str, Any] = {"naming": "", "prefix": "", "special": True, "same_x": False}


def run(
    source: Union[Source, Sequence[Source], Layer] = (),
    /,
    *,
    layer: Union[int, str, Sequence[int], None] = None,
    text: Union[str, Iterable[str], None] = None,
    ids: Union[Iterable[int], Iterable[Iterable[int]], npt.NDArray[Any], None] = None,
    stages: Optional[Names] = None,
    dtype: Any = None,
    tokens: Union[str, Sequence[str], None] = None,
    key_tokens: Union[str, Sequence[str], None] = None,
    config: Union[str, "os.PathLike[str]", Mapping[str, Any], None] = None,
    naming: Union[str, "os.PathLike[str]"] = "",
    prefix: str = "",
    bos: Optional[bool] = None,
    special: bool = True,
    same_x: bool = False,
    threads: int = 0,
    **arguments: Any,
) -> Cache:
    """Computes attention step by step and keeps every stage, or the requested ones.

    ``source``: a file, a checkpoint folder, a dictionary of arrays and settings, or several of them; or a mha.Layer, for
    which only ``stages`` and ``threads`` may be given.
    ``layer``: a number or name, a list of numbers, "0-3" or "all". ``text``, ``ids``: the input of a whole model.
    ``stages``: the stages to keep; None keeps all of them. ``dtype``: float32 or float64.

    Other arguments are tensors and stages (``X=x``, ``weights=patched`` replaces its computation,
    ``X="hidden.npz:layers.{layer}"`` reads a file) and settings (``num_heads=4``, ``causal=True``).
    C-contiguous arrays are used without a copy and must not change meanwhile. Other Python threads run
    during the computation.

    Raises mha.Error, a ValueError, that names the place, what was found, what was expected, and the cure.
    """
    kept_stages = [] if stages is None else _names("stages", stages)
    if stages is not None and not kept_stages:
        raise Error("stages: the list is empty; None keeps all stages")
    named = {"layer": layer, "text": text, "ids": ids, "dtype": dtype, "tokens": tokens, "key_tokens": key_tokens,
             "config": config, "naming": naming, "prefix": prefix, "bos": bos, "special": special, "same_x": same_x}
    if isinstance(source, Layer):
        every = {**named, **arguments}
        given = [name for name, value in every.items() if value is not None and value is not _DEFAULTS.get(name)]
        return _computed(source, kept_stages, threads, given)
    request = _request(source, arguments, array, named)
    request.stages = kept_stages
    request.threads = whole("threads", threads)
    title, computed = _core.run(request)
    warn_of((note for *_, notes in computed for note in notes), 2)
    return Cache(title, computed)


def _computed(layer: Layer, stages: list[str], threads: int, given: list[str]) -> Cache:
    """Computes stages of a Layer object."""
    if given:
        raise Error(f"{given[0]}: the layer already exists; set this when it is loaded, or change it with with_")
    arrays, notes = _core.run_layer(layer._layer, layer.id, stages, whole("threads", threads))
    warn_of(notes, 3)
    return Cache(layer.title, [(layer.id, layer.naming, arrays, layer._notes + notes)])


def load(
    source: Union[Source, Sequence[Source]] = (),
    /,
    *,
    layer: Union[int, str, Sequence[int], None] = None,
    text: Union[str, Iterable[str], None] = None,
    ids: Union[Iterable[int], Iterable[Iterable[int]], npt.NDArray[Any], None] = None,
    dtype: Any = None,
    tokens: Union[str, Sequence[str], None] = None,
    key_tokens: Union[str, Sequence[str], None] = None,
    config: Union[str, "os.PathLike[str]", Mapping[str, Any], None] = None,
    naming: Union[str, "os.PathLike[str]"] = "",
    prefix: str = "",
    bos: Optional[bool] = None,
    special: bool = True,
    same_x: bool = False,
    **arguments: Any,
) -> Layer:
    """Loads one layer to compute many times: ``mha.run(layer)``, ``mha.stream(layer, stage, use)``.

    Takes the arguments of ``run``, but copies arrays. For a whole model's folder, ``X`` is the residual stream before the layer.
    """
    named = {"layer": layer, "text": text, "ids": ids, "dtype": dtype, "tokens": tokens, "key_tokens": key_tokens,
             "config": config, "naming": naming, "prefix": prefix, "bos": bos, "special": special, "same_x": same_x}
    title, id, naming, notes, made = _core.load(_request(source, arguments, kept, named))
    warn_of(notes, 2)
    return Layer(made, title, id, naming, notes)


def layers(source: Union[Source, Sequence[Source]], /) -> list[str]:
    """The numbers or names of the layers in files or dictionaries; [""] for a single layer without either."""
    request = _core.Request.empty()
    request.sources, request.memory = _sources(source, None)
    return _core.layers(request)


def stages() -> list[Stage]:
    """The stage table, in the order of the computation."""
    return [Stage(*row) for row in _core.stages()]


def settings() -> list[Setting]:
    """The table of settings, such as ``num_heads=…``."""
    return [Setting(name, values, text, tuple(aliases.split())) for name, values, text, aliases in _core.settings()]


def tensors() -> list[Tensor]:
    """The table of a layer's tensors."""
    return [Tensor(name, shape, text, tuple(aliases.split())) for name, shape, text, aliases in _core.tensors()]
