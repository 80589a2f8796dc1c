"""What goes wrong, and what is in doubt."""

from __future__ import annotations

import warnings
from collections.abc import Iterable

from . import _core
from ._core import Error

Error.__module__ = "mha"


class StageError(Error, KeyError):
    """A name under which nothing was kept; a KeyError, too."""

    __module__ = "mha"
    __str__ = Error.__str__


class Warning(UserWarning):
    """A doubt about the numbers: something may not be what was meant."""

    __module__ = "mha"


def stage_named(name: str) -> str:
    """The stage that a name means, whatever stands before its last dot."""
    try:
        return _core.stage_named(name.rsplit(".", 1)[-1])
    except Error as error:
        raise StageError(str(error)) from None


def warn_of(notes: Iterable[tuple[bool, str]], stacklevel: int) -> None:
    """Warns of each doubt once."""
    for doubt in dict.fromkeys(text for is_doubt, text in notes if is_doubt):
        warnings.warn(doubt, Warning, stacklevel=stacklevel + 1)
