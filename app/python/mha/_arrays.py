"""Converts Python values for the library."""

from __future__ import annotations

import json
import math
import os
import sys
from collections.abc import Iterable, Mapping, Sequence, Set
from typing import Any, Optional

import numpy as np
import numpy.typing as npt

from . import _core
from ._core import Error
from ._errors import shown


def array(name: str, value: Any) -> tuple[npt.NDArray[Any], str]:
    """Converts a value to an array for the library, without a copy if possible; also returns its element type."""
    if value is None:
        raise Error(f"{name} is None: an array expected")
    if _is_masked(value):
        raise Error(f"{name} is a masked array: fill it, .filled(0), or give a mask of its own")
    if isinstance(value, np.ma.MaskedArray):
        value = value.data
    try:
        if _is_of_torch(value):  # with gradients, on a device, or a view of complex numbers
            value = value.detach().cpu().resolve_conj().resolve_neg()
        if str(getattr(value, "dtype", "")) == "torch.bfloat16":  # NumPy has none
            value = value.contiguous()
            return np.asarray(value.view(sys.modules["torch"].int16)).view(np.uint16), "bfloat16"
        array = np.asarray(value)
    except (ValueError, TypeError, RuntimeError) as error:  # lists of unequal lengths; a tensor without numbers
        raise Error(f"{name} is not an array: {str(error).partition('. ')[0]}") from None
    if isinstance(value, (list, tuple)) and array.dtype.kind in "iuf":  # numbers without a type of their own
        return array.astype(np.float64), "weak"
    dtype = array.dtype.name
    if dtype == "bfloat16":  # of ml_dtypes
        array = array.view(np.uint16)
    elif array.dtype.kind not in "biuf" or array.dtype.itemsize > 8:
        raise Error(f"{name} is an array of {dtype}; expected float64, float32, float16, integers or bool")
    if not array.dtype.isnative:
        array = array.astype(array.dtype.newbyteorder("="))
    if any(step % array.itemsize for step in array.strides):  # a field of records
        array = np.ascontiguousarray(array)
    return np.require(array, requirements=["A"]), array.dtype.name if dtype != "bfloat16" else dtype


def _is_of_torch(value: Any) -> bool:
    return type(value).__module__.partition(".")[0] == "torch"


def _is_masked(value: Any) -> bool:
    """Whether an array, or an array in a list, has masked elements."""
    if isinstance(value, (list, tuple)):
        return any(_is_masked(element) for element in value if isinstance(element, (list, tuple, np.ma.MaskedArray)))
    return isinstance(value, np.ma.MaskedArray) and bool(np.any(value.mask))


def kept(name: str, value: Any) -> tuple[npt.NDArray[Any], str]:
    """Like array(), but copies the value, so that later changes by the caller have no effect."""
    given, dtype = array(name, value)
    return np.array(given), dtype


def is_words(value: Any) -> bool:
    return isinstance(value, (list, tuple)) and len(value) > 0 and all(isinstance(word, str) for word in value)


def is_scalar(value: Any) -> bool:
    return isinstance(value, (str, bool, int, float, np.generic)) or (isinstance(value, np.ndarray) and value.ndim == 0)


def setting(name: str, value: Any) -> str:
    """Checks an argument for a setting and returns its text."""
    _core.require_setting(name)
    if not is_scalar(value):
        raise Error(f"{name}={shown(value)}: a number, a text, True or False expected")
    return text_of(value)


def text_of(value: Any) -> str:
    """A setting written as in a file."""
    if isinstance(value, (np.generic, np.ndarray)):
        value = value.item()
    if isinstance(value, bool):
        return "true" if value else "false"
    return repr(value) if isinstance(value, float) else str(value)


def _looks_like_another(text: str) -> bool:
    """Whether a text would be read as a number, a truth value, null, a list or an object."""
    try:
        return math.isfinite(float(text))
    except ValueError:
        return text in ("true", "false", "null") or text[:1] in ("[", "{") or "," in text


def json_text(value: Any) -> str:
    """A value of config.json: a text unchanged, or in quotes if it looks like another value; anything else as JSON."""
    if isinstance(value, str):
        return f'"{value}"' if _looks_like_another(value) else value
    try:
        return json.dumps(value, separators=(",", ":"), ensure_ascii=False, default=lambda other: other.item())
    except (AttributeError, TypeError, ValueError):  # torch.float16
        return str(value)


def dtype_name(dtype: Any) -> str:
    """The name of a dtype of NumPy or PyTorch; a name is returned unchanged; "" for None."""
    if dtype is None or isinstance(dtype, str):
        return dtype or ""
    name = str(dtype)
    try:
        return name.removeprefix("torch.") if name.startswith("torch.") else np.dtype(dtype).name
    except TypeError:
        raise Error(f"dtype is {shown(dtype)}: float32 or float64 expected") from None


def words(name: str, value: Any, example: str) -> list[str]:
    """Checks an argument that is one text or an iterable of texts."""
    given = [value] if isinstance(value, str) else value
    if not isinstance(given, Iterable) or isinstance(given, (bytes, Mapping)) or getattr(given, "ndim", 1) == 0:
        raise Error(f"{name}: {shown(value)} found, {example} expected")
    return [word(name, one) for one in given]


def word(name: str, value: Any) -> str:
    """Checks an argument that is a text."""
    if not isinstance(value, str):
        raise Error(f"{name}: {shown(value)} found, a text expected")
    try:
        value.encode()
    except UnicodeEncodeError:  # half of a surrogate pair, as in file names that are not UTF-8
        raise Error(f"{name}: {shown(value)} is not a valid text: UTF-8 cannot encode one of its characters") from None
    return str(value)


def path(name: str, value: Any) -> str:
    """Checks an argument that is a file or folder."""
    if not isinstance(value, (str, os.PathLike)):
        raise Error(f"{name} is {shown(value)}: a path expected")
    return word(name, os.fspath(value))


def whole(name: str, value: Any, least: Optional[int] = 0) -> int:
    """Checks an argument that is an integer of at least ``least``."""
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, (int, np.integer)):
        raise Error(f"{name} is {shown(value)}: a whole number expected")
    if (least is not None and value < least) or abs(int(value)) >= 2**63:
        raise Error(f"{name} is {value}: {'' if least is None else f'{least} or more '}expected")
    return int(value)


def flag(name: str, value: Any) -> bool:
    """Checks an argument that is True or False."""
    if not isinstance(value, (bool, np.bool_)):
        raise Error(f"{name} is {shown(value)}: True or False expected")
    return bool(value)


def rows_of_ids(ids: Any) -> tuple[list[list[int]], bool]:
    """Checks token numbers of one or several texts; also returns whether they are several."""
    if isinstance(ids, (list, tuple)):
        ids = [one.tolist() if _is_of_torch(one) else one for one in ids]
    if _is_masked(ids):
        raise Error("ids are a masked array: give each text's own numbers, [[5, 6, 7], [8]]")
    if isinstance(ids, (str, bytes, bytearray, memoryview, Mapping, Set)) or not hasattr(ids, "__iter__"):
        raise Error(f"ids are {shown(ids)}: token numbers expected, of one text or of several")
    if getattr(ids, "ndim", 1) == 0:
        raise Error(f"ids are {shown(ids)}: token numbers expected, of one text or of several")
    numbers = ids.tolist() if hasattr(ids, "tolist") else list(ids)
    several = any(isinstance(row, (Sequence, np.ndarray)) and not isinstance(row, (str, bytes)) for row in numbers)
    if several and not all(isinstance(row, Iterable) and not isinstance(row, (str, bytes)) for row in numbers):
        raise Error(f"ids: {shown(ids)} mixes texts and numbers: token numbers expected, of one text or of several")
    rows = [list(row) for row in numbers] if several else [numbers]
    if any(len(row) == 0 for row in rows):
        raise Error("ids: a text has no tokens")
    for row in rows:
        for number in row:
            if isinstance(number, (bool, np.bool_)) or not isinstance(number, (int, np.integer)):
                raise Error(f"ids: {shown(number)} is not a token number; integers expected, of one text or of several")
            if not 0 <= number < 2**31:
                raise Error(f"ids: {number} is not a token number")
    return [[int(number) for number in row] for row in rows], several
