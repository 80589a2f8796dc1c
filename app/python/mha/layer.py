"""One layer: its weights and settings, its sizes, and the input where it has one."""

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
    """One layer, ready to be computed: ``mha.load(…)``, ``model.layer(3)``, ``model.layer(3, text)``.

    ``mha.run(layer)`` computes its stages, ``mha.stream(layer, stage, use)`` hands out one. Layers never
    change: ``with_`` makes another one.
    """

    def __init__(self, layer: _core.Layer, title: str, id: str = "", naming: str = "", notes: _core.Notes = []):
        self._layer = layer
        self._notes = list(notes)
        self.title: str = title
        """Where it is from: a file, a folder."""
        self.id: str = id
        """Its number or name; "" for a lone layer."""
        self.naming: str = naming
        """The family whose names the tensors have."""

    @property
    def notes(self) -> tuple[str, ...]:
        """What was taken silently, passed over or should be known."""
        return tuple(dict.fromkeys(text for _, text in self._notes))

    @property
    def dims(self) -> dict[str, int]:
        """Its sizes: H, H_kv, d_model, d_k, d_v, d_ff, vocabulary; T queries and S keys, B of a batch."""
        return self._layer.dims()

    @property
    def dtype(self) -> np.dtype[Any]:
        """What it is computed in: float32 or float64."""
        return np.dtype(self._layer.dtype())

    @property
    def settings(self) -> dict[str, str]:
        """The settings in force, as a file would have them: ``{"causal": "true", …}``."""
        return self._layer.settings()

    @property
    def stages(self) -> tuple[str, ...]:
        """What can be computed of it, in the order of the computation; () without an input."""
        return tuple(self._layer.stages())

    def shape_of(self, stage: str) -> tuple[int, ...]:
        """The shape that a stage has."""
        return tuple(self._layer.shape_of(word("the stage", stage)))

    def with_(self, name: str, array: Any) -> Layer:
        """The layer with another input, weight, mask or bias, or with a stage in place of its computation.

        The array has the shape that the name has in the layer.
        """
        named = word("the tensor", name)
        return Layer(self._layer.with_(named, kept(named, array)), self.title, self.id, self.naming, self._notes)

    def diff(
        self, saved: Saved, *, stages: Any = None, atol: Optional[float] = None, rtol: Optional[float] = None,
        threads: int = 0,
    ) -> Differences:
        """Whether saved stages of another implementation of the layer agree, stage by stage.

        ``saved``: a file, several, or arrays by name. ``stages``: those that must be compared; else all that was saved.
        ``verdict`` is "equal" only if all of them were compared, and agree.
        """
        files, arrays = _saved(saved)
        found, notes = _differences(_core.diff_layer(
            self._layer, files, arrays, self.id, _asked(stages, atol, rtol), whole("threads", threads)))
        warn_of(notes, 2)
        return found

    def diagnose(self, saved: Saved, *, threads: int = 0) -> Findings:
        """What another implementation of the layer does otherwise that saved stages.

        ``saved``: a file, several, or arrays by name, ``{"q": q, "output": output}``.
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
    """Computes one stage and hands its rows out as they appear: ``use((text, head, token), rows)``.

    At most 256 tokens of one head at a time, in the order of texts, heads and tokens.
    """
    if not isinstance(layer, Layer):
        raise Error(f"{shown(layer)} is no layer: mha.load(…) or model.layer(…) expected")
    if not callable(use):
        raise Error(f"{shown(use)} is no function of a place and rows")
    layer._layer.stream(word("the stage", stage), use, whole("threads", threads))
