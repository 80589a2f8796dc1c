"""Immutable objects."""

from __future__ import annotations

from typing import Any


class Whole:
    """An immutable object: a copy is the same object."""

    def __copy__(self) -> Any:
        return self

    def __deepcopy__(self, memo: Any) -> Any:
        return self

    def __reduce__(self) -> Any:
        raise TypeError(f"{self!r} cannot be pickled because it shares a model; pickle its arrays and numbers, dict(run), tokens.ids")
