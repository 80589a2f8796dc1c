"""Objects that never change."""

from __future__ import annotations

from typing import Any


class Whole:
    """What never changes: a copy is the same object."""

    def __copy__(self) -> Any:
        return self

    def __deepcopy__(self, memo: Any) -> Any:
        return self

    def __reduce__(self) -> Any:
        raise TypeError(f"{self!r} is not pickled: it shares a model; take its arrays and numbers, dict(run), tokens.ids")
