"""One layer with its weights, settings, sizes and optional input."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Optional, Union

import numpy as np
import numpy.typing as npt

from . import _core
from ._arrays import kept, whole, word
from ._core import Error
from ._errors import shown, warn_of
from ._whole import Whole
from .diagnose import Differences, Findings, Saved, _asked, _differences, _findings, _saved


class Layer(Whole):
    """One layer, from ``mha.load(…)``, ``model.layer(3)`` or ``model.layer(3, text)``.

    ``mha.run(layer)`` computes its stages, ``mha.stream(layer, stage, use)`` streams one. Layers are
    immutable: ``with_`` makes a new one.
    """

    def __init__(self, layer: _core.Layer, title: str, id: str = "", naming: str = "", notes: _core.Notes = []):
        self._layer = layer
        self._notes = list(notes)
        self.title: str = title
        """Its source: a file, a folder."""
        self.id: str = id
        """Its number or name; "" if it has neither."""
        self.naming: str = naming
        """The model family whose tensor names were recognised."""

    @property
    def notes(self) -> tuple[str, ...]:
        """Silent assumptions, ignored tensors, and doubts."""
        return tuple(dict.fromkeys(text for _, text in self._notes))

    @property
    def dims(self) -> dict[str, int]:
        """Its sizes: H, H_kv, d_model, d_k, d_v, d_ff, vocabulary; T queries, S keys, and B for a batch."""
        return self._layer.dims()

    @property
    def dtype(self) -> np.dtype[Any]:
        """The precision of the computation: float32 or float64."""
        return np.dtype(self._layer.dtype())

    @property
    def settings(self) -> dict[str, str]:
        """The settings in effect, written as in a file: ``{"causal": "true", …}``."""
        return self._layer.settings()

    @property
    def stages(self) -> tuple[str, ...]:
        """The stages that can be computed, in order; () without an input."""
        return tuple(self._layer.stages())

    def shape_of(self, stage: str) -> tuple[int, ...]:
        """The shape of a stage."""
        return tuple(self._layer.shape_of(word("the stage", stage)))

    def with_(self, name: str, array: Any) -> Layer:
        """The layer with another input, weight, mask or bias, or with a stage that replaces its computation.

        The array must have the shape of the tensor or stage that it replaces.
        """
        named = word("the tensor", name)
        return Layer(self._layer.with_(named, kept(named, array)), self.title, self.id, self.naming, self._notes)

    def diff(
        self, saved: Saved, *, stages: Any = None, atol: Optional[float] = None, rtol: Optional[float] = None,
        threads: int = 0,
    ) -> Differences:
        """Compares saved stages of another implementation of the layer, stage by stage.

        ``saved``: a file, several files, or arrays by name. ``stages``: those that must be compared; default: all saved
        ones. ``verdict`` is "equal" only if all of them were compared and agree.
        """
        files, arrays = _saved(saved)
        found, notes = _differences(_core.diff_layer(
            self._layer, files, arrays, self.id, _asked(stages, atol, rtol), whole("threads", threads)))
        warn_of(notes, 2)
        return found

    def diagnose(self, saved: Saved, *, threads: int = 0) -> Findings:
        """Finds how another implementation of the layer differs, from its saved stages.

        ``saved``: a file, several files, or arrays by name, ``{"q": q, "output": output}``.
        """
        files, arrays = _saved(saved)
        found, notes = _findings(_core.diagnose_layer(self._layer, files, arrays, self.id, whole("threads", threads)))
        warn_of(notes, 2)
        return found

    def __repr__(self) -> str:
        of = f", layer {self.id}" if self.id else ""
        sizes = self.dims
        return f"<mha.Layer of {self.title}{of}: {sizes['H']} heads, {len(self.stages)} stages>"


def stream(
    layer: Layer,
    stage: str,
    use: Callable[[tuple[int, int, int], npt.NDArray[Any]], Any],
    *,
    threads: int = 0,
) -> None:
    """Computes one stage and passes its rows to ``use((text, head, token), rows)`` during the computation.

    At most 256 tokens of one head at a time, in the order of texts, heads and tokens.
    """
    if not isinstance(layer, Layer):
        raise Error(f"{shown(layer)} is not a layer: mha.load(…) or model.layer(…) expected")
    if not callable(use):
        raise Error(f"{shown(use)} is not a function of a place and rows")
    layer._layer.stream(word("the stage", stage), use, whole("threads", threads))
