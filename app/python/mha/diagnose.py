"""Whether the stages that another implementation of a model or a layer saved agree, and what it does otherwise."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from numbers import Real
from typing import Any, NamedTuple, Optional, Union

from . import _core
from ._arrays import array, path, word, words
from ._core import Error
from ._errors import key_of, shown

Saved = Union[str, "os.PathLike[str]", Sequence[Union[str, "os.PathLike[str]"]], Mapping[Any, Any]]


class StageDifference(NamedTuple):
    """A saved stage beside ours."""

    stage: str
    status: str
    """"equal" (the same bits), "close" (within rounding), "first" (the first that differs), "inherited" or "same tensor"."""
    max_abs: float
    """The largest abs(ours - theirs) of elements that disagree; where none does, of all."""
    max_rel: float
    mismatched: int
    count: int
    cosine: float
    at: tuple[int, ...]
    """The element of max_abs, whose values are ours and theirs."""
    ours: float
    theirs: float
    own: Optional[bool]
    """Whether it disagrees when it is computed from the saved stages before it, too; None where those do not say."""


class PlaceDifferences(NamedTuple):
    """What was compared of one place of a model."""

    place: str
    """"layers.3", or "model" for what follows the last; "" for a lone layer."""
    layer: str
    """The layer in words."""
    verdict: str
    first: Optional[str]
    """The first stage that differs."""
    stages: list[StageDifference]


class Differences(NamedTuple):
    """What a comparison found: "equal", "differs", or "incomplete" where something saved was not compared."""

    verdict: str
    places: list[PlaceDifferences]
    compared: str
    not_compared: list[str]
    notes: tuple[str, ...]


class Cause(NamedTuple):
    """One thing that the other implementation does otherwise."""

    id: str
    """As docs/diagnose.md lists them: "scale.missing"."""
    stage: str
    """The first stage that it changes."""
    change: str
    """"the reference leaves out b_q"."""
    cure: str
    """What to change there."""
    option: str
    """What makes the program do the same, "--scale d_model"; "" where no option does."""
    settings: dict[str, str]
    """The same as settings of ``Model`` or ``load``."""


class ComparedStage(NamedTuple):
    """How far a saved stage is from ours, as a share of it: as computed, and with the causes."""

    stage: str
    before: float
    after: float


class Finding(NamedTuple):
    """What was found in one place of a model."""

    place: str
    """"embed", "layers.3", or "model" for what follows the last; "" for a lone layer."""
    layer: str
    """The layer in words."""
    equal: bool
    explained: bool
    causes: list[Cause]
    same_numbers: list[str]
    """Other causes that would give the same numbers."""
    unexplained: Optional[str]
    """The first stage that nothing explains."""
    at: str
    """Where that differs most: "head 2 query 17"."""
    hints: list[str]
    stages: list[ComparedStage]


class Findings(NamedTuple):
    """What a diagnosis found: ``places`` in the order of the computation."""

    places: list[Finding]
    equal: bool
    explained: bool
    compared: str
    not_compared: list[str]
    notes: tuple[str, ...]


def _saved(saved: Any) -> tuple[list[str], list[tuple[str, tuple[Any, str]]]]:
    """What was saved as files and as arrays."""
    if isinstance(saved, Mapping):
        named = {word("a saved stage", key_of(name) if isinstance(name, tuple) else name): value for name, value in saved.items()}
        return [], [(name, array(name, value)) for name, value in named.items()]
    given = [saved] if isinstance(saved, (str, os.PathLike)) else saved
    if not isinstance(given, Sequence) or isinstance(given, (bytes, bytearray)):
        raise Error(f"{shown(saved)} is nothing saved: a file, several, or arrays by name expected")
    return [path("a saved file", one) for one in given], []


def _asked(stages: Any, atol: Any, rtol: Any) -> tuple[list[str], Optional[float], Optional[float]]:
    """Stages that must be compared, and tolerances."""
    named = [] if stages is None else words("stages", stages, "names of stages")
    for name, given in (("atol", atol), ("rtol", rtol)):
        if given is not None and not (isinstance(given, Real) and not isinstance(given, bool) and given >= 0):
            raise Error(f"{name} is {shown(given)}: a number from 0 up expected")
    return named, None if atol is None else float(atol), None if rtol is None else float(rtol)


def _differences(found: Any) -> tuple[Differences, _core.Notes]:
    verdict, places, compared, not_compared, notes = found
    made = [
        PlaceDifferences(place, layer, of_place, first, [StageDifference(*one[:7], tuple(one[7]), *one[8:]) for one in stages])
        for place, layer, of_place, first, stages in places
    ]
    return Differences(verdict, made, compared, not_compared, tuple(text for _, text in notes)), notes


def _findings(found: Any) -> tuple[Findings, _core.Notes]:
    places, equal, explained, compared, not_compared, notes = found
    made = [
        Finding(place, layer, is_equal, is_explained,
                [Cause(*cause[:5], dict(cause[5])) for cause in causes], same, unexplained, at, hints,
                [ComparedStage(*one) for one in stages])
        for place, layer, is_equal, is_explained, causes, same, unexplained, at, hints, stages in places
    ]
    return Findings(made, equal, explained, compared, not_compared, tuple(text for _, text in notes)), notes
