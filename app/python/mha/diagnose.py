"""Compares saved stages of another implementation, and finds how it differs."""

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
    """Compares a saved stage with ours."""

    stage: str
    status: str
    """"equal" (the same bits), "close" (within rounding), "first" (the first that differs), "inherited" or "same tensor"."""
    max_abs: float
    """The largest abs(ours - theirs) of elements that disagree, or of all if none does."""
    max_rel: float
    mismatched: int
    count: int
    cosine: float
    at: tuple[int, ...]
    """The element of max_abs, whose values are ours and theirs."""
    ours: float
    theirs: float
    own: Optional[bool]
    """Whether it also disagrees when computed from the saved stages before it; None if these are not enough."""


class PlaceDifferences(NamedTuple):
    """The comparison at one place of a model."""

    place: str
    """"layers.3", or "model" after the last layer; "" for a single layer."""
    layer: str
    """The layer in words."""
    verdict: str
    first: Optional[str]
    """The first stage that differs."""
    stages: list[StageDifference]


class Differences(NamedTuple):
    """The result of a comparison: "equal", "differs", or "incomplete" if something saved was not compared."""

    verdict: str
    places: list[PlaceDifferences]
    compared: str
    not_compared: list[str]
    notes: tuple[str, ...]


class Cause(NamedTuple):
    """One way in which the other implementation differs."""

    id: str
    """Its identifier in docs/diagnose.md, "scale.missing"."""
    stage: str
    """The first stage that it changes."""
    change: str
    """"the reference leaves out b_q"."""
    cure: str
    """What to change in the other implementation."""
    option: str
    """The program's option that does the same, "--scale d_model", or ""."""
    settings: dict[str, str]
    """The same as settings of ``Model`` or ``load``."""


class ComparedStage(NamedTuple):
    """The relative error of a saved stage: as computed, and with the causes applied."""

    stage: str
    before: float
    after: float


class Finding(NamedTuple):
    """The diagnosis at one place of a model."""

    place: str
    """"embed", "layers.3", or "model" after the last layer; "" for a single layer."""
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
    """Where it differs most: "head 2 query 17"."""
    hints: list[str]
    stages: list[ComparedStage]


class Findings(NamedTuple):
    """The result of a diagnosis; ``places`` are in the order of the computation."""

    places: list[Finding]
    equal: bool
    explained: bool
    compared: str
    not_compared: list[str]
    notes: tuple[str, ...]


def _saved(saved: Any) -> tuple[list[str], list[tuple[str, tuple[Any, str]]]]:
    """Saved stages as files and as arrays."""
    if isinstance(saved, Mapping):
        named = {word("a saved stage", key_of(name) if isinstance(name, tuple) else name): value for name, value in saved.items()}
        return [], [(name, array(name, value)) for name, value in named.items()]
    given = [saved] if isinstance(saved, (str, os.PathLike)) else saved
    if not isinstance(given, Sequence) or isinstance(given, (bytes, bytearray)):
        raise Error(f"{shown(saved)} is not saved stages: a file, several files, or arrays by name expected")
    return [path("a saved file", one) for one in given], []


def _asked(stages: Any, atol: Any, rtol: Any) -> tuple[list[str], Optional[float], Optional[float]]:
    """Stages that must be compared, and tolerances."""
    named = [] if stages is None else words("stages", stages, "names of stages")
    for name, given in (("atol", atol), ("rtol", rtol)):
        if given is not None and not (isinstance(given, Real) and not isinstance(given, bool) and given >= 0):
            raise Error(f"{name} is {shown(given)}: a number of at least 0 expected")
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
