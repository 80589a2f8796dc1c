"""Errors and warnings."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from typing import Any

import numpy as np

from . import _core
from ._core import Error

Error.__module__ = "mha"


def shown(value: Any) -> str:
    """A value as one short line for a message."""
    if isinstance(value, np.ndarray) and value.size > 8:
        return f"an array {value.shape} of {value.dtype}"
    text = " ".join(repr(value).split())
    return text if len(text) <= 80 else f"{text[:79]}…"


class StageError(Error, KeyError):
    """A stage that was not kept; also a KeyError."""

    __module__ = "mha"
    __str__ = Error.__str__


class Warning(UserWarning):
    """A doubt about the numbers: something may be unintended."""

    __module__ = "mha"


def key_of(key: Any) -> str:
    """The name for a key: "weights", "layers.3.weights", ("weights", 3)."""
    if isinstance(key, tuple) and len(key) == 2 and isinstance(key[0], str) and is_layer(key[1]):
        stage, layer = key
        is_of_model = stage in ("embed", "final", "logits")
        if is_of_model:
            raise StageError(f"{shown(key)}: {stage} belongs to the whole model and has no layer")
        return f"layers.{layer}.{stage}"
    if not isinstance(key, str):
        raise StageError(f"{shown(key)} is not a name: 'layers.3.weights' or ('weights', 3) expected")
    return key


def is_layer(value: Any) -> bool:
    return isinstance(value, (int, np.integer, str)) and not isinstance(value, bool)


def stage_named(name: str) -> str:
    """The stage that a name means, ignoring everything before its last dot."""
    try:
        return _core.stage_named(name.rsplit(".", 1)[-1])
    except Error as error:
        raise StageError(str(error)) from None


def warn_of(notes: Iterable[tuple[bool, str]], stacklevel: int) -> None:
    """Warns about each doubt once."""
    for doubt in dict.fromkeys(text for is_doubt, text in notes if is_doubt):
        warnings.warn(doubt, Warning, stacklevel=stacklevel + 1)
