"""A whole model that is opened once and run many times."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any, NamedTuple, Optional, Union

import numpy as np
import numpy.typing as npt

from . import _core
from ._arrays import array, dtype_name, flag, kept, path, rows_of_ids, setting, text_of, whole, word, words
from ._core import Error
from ._errors import StageError, is_layer, key_of, shown, stage_named, warn_of
from ._whole import Whole
from .diagnose import Differences, Findings, Saved, _asked, _differences, _findings, _saved
from .layer import Layer

Text = Union[str, Iterable[str], Iterable[int], Iterable[Iterable[int]], npt.NDArray[Any], "Tokens"]
Key = Union[str, tuple[str, Union[int, str]]]
Progress = Callable[[float], Any]
Names = Union[str, tuple[str, int], Iterable[Union[str, tuple[str, int]]]]


class Prediction(NamedTuple):
    """A token that a model predicts."""

    id: int
    piece: str
    logit: float
    probability: float


def _place(place: Any) -> str:
    """The place named by a text or a key such as ("weights", 2)."""
    return word("a patch's place", key_of(place) if isinstance(place, tuple) else place)


class Patch(Whole):
    """A change that a run makes while it is computed.

    Written as on the command line, ``Patch("layers.3.head_result[5] = zero")``, or with an array for a
    place, ``Patch("layers.2.weights", array)``, ``Patch("layers.2.q[0,-1] +=", array)``.
    """

    def __init__(self, place: Key, value: Any = None):
        place = _place(place)
        self.place: str = place
        if value is None or isinstance(value, str):  # "zero", "mean", "from 'another text'"
            sign = " " if place.rstrip().endswith("=") else " = "
            self._patch: _core.Patch = _core.Patch.written(place if value is None else f"{place}{sign}{value}")
        else:
            self._patch = _core.Patch.from_array(place, kept(place, np.atleast_1d(value) if np.isscalar(value) else value))

    @staticmethod
    def _made(place: str, patch: _core.Patch) -> Patch:
        made = Patch.__new__(Patch)
        made.place, made._patch = place, patch
        return made

    @staticmethod
    def zero(place: Key) -> Patch:
        """Sets the numbers at a place to 0."""
        return Patch(f"{_place(place)} = zero")

    @staticmethod
    def mean(place: Key) -> Patch:
        """Sets them to their mean over all positions of the run's texts."""
        return Patch(f"{_place(place)} = mean")

    @staticmethod
    def from_run(place: Key, run: Run) -> Patch:
        """Sets them to the values at the same place in another run of the same model, over texts of equal length."""
        place = _place(place)
        if not isinstance(run, Run):
            raise Error(f"{place}: {shown(run)} is not a run of a model")
        return Patch._made(place, _core.Patch.from_run(place, run._run))

    @staticmethod
    def rows(place: Key, function: Callable[[tuple[int, int, int], npt.NDArray[Any]], Any]) -> Patch:
        """Sets each row of a place to the result of ``function((text, head, token), row)``."""
        named = _place(place)
        if not callable(function):
            raise Error(f"{named}: {shown(function)} is not a function of a place and a row")

        def as_array(at: tuple[int, int, int], row: npt.NDArray[Any]) -> tuple[Any, str]:
            return array(named, function(at, row))

        return Patch._made(named, _core.Patch.rows(named, as_array))

    def __repr__(self) -> str:
        return f"<mha.Patch {self.place}>"


Patches = Union[str, Patch, tuple[Key, Any], Iterable[Union[str, Patch, tuple[Key, Any]]], Mapping[Any, Any]]


def _is_pair(patches: Any) -> bool:
    """Whether a tuple is one patch (a place and its value) instead of two: "PLACE = VALUE" is a whole patch."""
    if not isinstance(patches, tuple) or len(patches) != 2 or isinstance(patches[1], (Patch, tuple)):
        return False
    is_whole = isinstance(patches[0], str) and "=" in patches[0].rstrip()[:-1].rstrip("+*")
    return isinstance(patches[0], (str, tuple)) and not (is_whole and isinstance(patches[1], str))


def _patches(patches: Optional[Patches]) -> list[_core.Patch]:
    if patches is None:
        return []
    is_pair = _is_pair(patches)
    given: list[Any]
    if isinstance(patches, (str, Patch)) or is_pair:
        given = [patches]
    elif not isinstance(patches, Iterable) or isinstance(patches, (bytes, np.ndarray)):
        raise Error(f"{shown(patches)} is not a patch: 'PLACE = VALUE', mha.Patch or (place, array) expected, or several of them")
    else:
        given = list(patches.items() if isinstance(patches, Mapping) else patches)
    for one in given:
        if not isinstance(one, (str, Patch)) and not (isinstance(one, tuple) and len(one) == 2):
            raise Error(f"{shown(one)} is not a patch: 'PLACE = VALUE', mha.Patch or (place, array) expected")
        if isinstance(one, tuple) and one[1] is None:
            raise Error(f"{one[0]!r}: its value is None; an array, a number or 'zero' expected")
    made = [one if isinstance(one, Patch) else Patch(one) if isinstance(one, str) else Patch(*one) for one in given]
    return [one._patch for one in made]


def _names(name: str, names: Optional[Names]) -> list[str]:
    if names is None:
        return []
    is_key = isinstance(names, tuple) and len(names) == 2 and is_layer(names[1]) and not isinstance(names[1], str)
    given = [names] if isinstance(names, str) or is_key else names
    if not isinstance(given, Iterable) or isinstance(given, bytes):
        raise Error(f"{name}: {shown(names)} found, names of stages expected, ['layers.3.weights', 'logits']")
    return [word(name, key_of(one) if isinstance(one, tuple) else one) for one in given]


def _progress(progress: Optional[Progress]) -> Optional[Progress]:
    if progress is not None and not callable(progress):
        raise Error(f"progress is {shown(progress)}: a function of the finished share expected")
    return progress


class Tokens(Whole):
    """A model's token numbers for one text, or for a batch of texts of any lengths."""

    def __init__(self, tokens: _core.Tokens):
        self._tokens = tokens

    @property
    def batched(self) -> bool:
        """Whether they are a batch, whose arrays have a batch axis."""
        return self._tokens.batched()

    @property
    def ids(self) -> list[Any]:
        """The token numbers of the text, or of each text in a batch."""
        every: list[Any] = [self._tokens.ids(text) for text in range(self._tokens.count())]
        return every if self.batched else list(every[0])

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes on the texts: invalid UTF-8 was replaced …"""
        return tuple(text for _, text in self._tokens.notes())

    @property
    def pieces(self) -> list[Any]:
        """The text of each token."""
        every: list[Any] = [self._tokens.pieces(text) for text in range(self._tokens.count())]
        return every if self.batched else list(every[0])

    def __len__(self) -> int:
        """The number of tokens of a text, or of texts in a batch."""
        return self._tokens.count() if self.batched else len(self._tokens.ids(0))

    def __repr__(self) -> str:
        return f"<mha.Tokens: {len(self)} {'texts' if self.batched else 'tokens'}>"


class Run(Whole, Mapping[str, npt.NDArray[Any]]):
    """A model's run over texts: the kept stages by name, as read-only arrays.

    ``run["layers.3.weights"]``, ``run["weights", 3]``, ``run["logits"]``; other tools' names also
    work. Arrays outlive the run.
    """

    def __init__(self, run: _core.Run, model: Model):
        self._run = run
        self.model: Model = model

    @property
    def tokens(self) -> Tokens:
        return Tokens(self._run.tokens())

    @property
    def ids(self) -> list[Any]:
        return self.tokens.ids

    @property
    def pieces(self) -> list[Any]:
        return self.tokens.pieces

    @property
    def notes(self) -> tuple[str, ...]:
        """Silent assumptions, ignored tensors, and doubts."""
        return tuple(text for _, text in self._run.notes())

    def __getitem__(self, key: Union[str, tuple[str, int]]) -> npt.NDArray[Any]:
        name = word("the stage", key_of(key))
        stage_named(name)
        try:
            return self._run.tensor(name)
        except Error as error:
            raise StageError(str(error)) from None

    def __contains__(self, key: object) -> bool:
        try:
            return self._run.has(key_of(key))
        except Error:
            return False

    def __iter__(self) -> Iterator[str]:
        return iter(self._run.kept())

    def __len__(self) -> int:
        return len(self._run.kept())

    # Runs are equal only if identical: comparing arrays would be ambiguous.
    __eq__ = object.__eq__
    __hash__ = object.__hash__

    def __bool__(self) -> bool:
        return True

    def resid(self, layer: int) -> npt.NDArray[Any]:
        """The residual stream before a layer, or after the last one for the number of layers or -1."""
        return self._run.resid(whole("resid's layer", layer, None))

    def logits(self) -> npt.NDArray[Any]:
        """The logits, computed at the first call if they were not kept."""
        return self._run.logits()

    def loss(self) -> float:
        """The mean of -log p of the next tokens, in nats, over all positions with a next token."""
        return self._run.loss()

    def losses(self) -> Any:
        """The loss at each position but the last as an array; for a batch, a list with one array for each text."""
        every = [np.array(text) for text in self._run.losses()]
        return every if self._run.tokens().batched() else every[0]

    def predictions(self, position: int = -1, top: int = 10, text: int = 0) -> list[Prediction]:
        """The most probable tokens after a position."""
        return [Prediction(*one) for one in self._run.predictions(
            whole("position", position, None), whole("top", top), whole("text", text))]

    def heads(
        self, measure: str, *, threads: int = 0, progress: Optional[Progress] = None
    ) -> npt.NDArray[np.float64]:
        """A measure of each head ("entropy", "previous" …): layers × heads, NaN where undefined."""
        return self._run.heads(word("the measure", measure), whole("threads", threads), _progress(progress))

    def effects(
        self,
        column: str = "kl",
        positions: Union[int, Iterable[int], None] = -1,
        *,
        threads: int = 0,
        progress: Optional[Progress] = None,
    ) -> npt.NDArray[np.float64]:
        """The effect of ablating each head on predictions: "kl", "loss_change", "logit_change" or "direct", layers × heads.

        Changes are the value without the head minus that with it; "direct" is the head's own contribution to the logit.
        "loss_change" needs positions with a next token, so not -1.

        ``positions``: where predictions are compared, negative from the end; None: all.
        """
        given: Any = positions
        if given is not None and (isinstance(given, (str, bytes)) or not isinstance(given, Iterable)):
            given = [given]
        chosen = None if given is None else [whole("a position", one, None) for one in given]
        return self._run.effects(word("the column", column), chosen, whole("threads", threads), _progress(progress))

    def with_(
        self,
        patches: Optional[Patches],
        *,
        keep: Optional[Names] = (),
        streams: bool = True,
        threads: int = 0,
        progress: Optional[Progress] = None,
    ) -> Run:
        """The same run with further patches; only layers from the first patched one on are computed again."""
        changed = self._run.with_(
            _patches(patches), _names("keep", keep), flag("streams", streams), whole("threads", threads), _progress(progress))
        known = self._run.notes()
        warn_of((note for note in changed.notes() if note not in known), 2)
        return Run(changed, self.model)

    def __repr__(self) -> str:
        return f"<mha.Run of {self.model.folder}, {self.tokens!r}: {len(self)} stages kept>"


class Model:
    """A whole model, from a checkpoint folder with its config.json.

    Opening reads only headers; weights are read when first needed, and kept for later runs.
    ``dtype``: float32 or float64. ``memory``: the maximum bytes of packed weights.
    ``naming``: the name of a family, or the file of a description. Other arguments are settings
    (``rope_base=5e5``). A model may be used from several threads.
    """

    def __init__(
        self,
        folder: Union[str, "os.PathLike[str]"],
        *,
        dtype: Any = None,
        memory: Optional[int] = None,
        naming: Union[str, "os.PathLike[str]"] = "",
        **settings: Any,
    ):
        for name, value in settings.items():
            setting(name, value)
        given = [(name, text_of(value)) for name, value in settings.items()]
        self.folder: str = path("the folder", folder)
        budget = None if memory is None else whole("memory", memory)
        self._arguments: Optional[tuple[Any, ...]] = (self.folder, dtype_name(dtype), budget, path("naming", naming), given)
        self._opened: Optional[_core.Model] = _core.Model.open(*self._arguments)
        warn_of(self._model.notes(), 2)

    @staticmethod
    def _made(model: _core.Model) -> Model:
        made = Model.__new__(Model)
        made.folder, made._opened, made._arguments = model.folder(), model, None
        return made

    def __copy__(self) -> Model:
        return Model._made(self._model) if self._arguments is None else self._again(self._arguments, self._model)

    def __deepcopy__(self, memo: Any) -> Model:
        return self.__copy__()

    def __reduce__(self) -> Any:
        _ = self._model  # raises Error if closed
        if self._arguments is None:
            raise TypeError(f"{self!r} cannot be pickled because its weights were changed; pickle the model on which with_ was called")
        return Model._again, (self._arguments,)

    @staticmethod
    def _again(arguments: tuple[Any, ...], model: Optional[_core.Model] = None) -> Model:
        """A model opened with the same arguments as another."""
        made = Model._made(_core.Model.open(*arguments) if model is None else model)
        made._arguments = arguments
        return made

    @property
    def _model(self) -> _core.Model:
        if self._opened is None:
            raise Error("the model is closed")
        return self._opened

    def close(self) -> None:
        """Releases the files and weights; runs keep what they need."""
        self._opened = None

    def __enter__(self) -> Model:
        return self

    def __exit__(
        self,
        kind: Optional[type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        self.close()

    @property
    def layers(self) -> int:
        """The number of layers."""
        return self._model.layers()

    @property
    def dtype(self) -> np.dtype[Any]:
        return np.dtype(self._model.dtype())

    @property
    def notes(self) -> tuple[str, ...]:
        return tuple(text for _, text in self._model.notes())

    def dims(self, layer: Union[int, str] = 0) -> dict[str, int]:
        """The sizes of a layer: H, H_kv, d_model, d_k, d_v, d_ff, vocabulary."""
        if not is_layer(layer):
            raise Error(f"the layer is {shown(layer)}: a number or a name expected")
        return self._model.dims(str(layer))

    def tokens(self, text: Text) -> Tokens:
        """Tokens of one text or of its token numbers; a list of texts, or of lists of numbers, is a batch."""
        if isinstance(text, Tokens):
            return text
        if isinstance(text, str):
            return Tokens(self._model.tokens(word("the text", text)))
        given: Any = list(text) if isinstance(text, Iterator) else text
        if not hasattr(given, "__len__") or getattr(given, "ndim", 1) == 0:
            raise Error(f"{shown(given)} is neither a text nor token numbers")
        if len(given) > 0 and any(isinstance(one, str) for one in given):
            return Tokens(self._model.batch(words("a text", given, "texts")))
        rows, several = rows_of_ids(given)
        return Tokens(self._model.batch(rows) if several else self._model.tokens(rows[0]))

    def text(self, ids: Sequence[int]) -> str:
        """The text of token numbers."""
        if isinstance(ids, (list, tuple, np.ndarray)) and getattr(ids, "ndim", 1) > 0 and len(ids) == 0:
            return self._model.text([])
        rows, several = rows_of_ids(ids)
        if several:
            raise Error("text: token numbers of several texts; give those of one text")
        return self._model.text(rows[0])

    def run(
        self,
        text: Text,
        *,
        keep: Optional[Names] = (),
        patches: Optional[Patches] = None,
        streams: bool = True,
        threads: int = 0,
        progress: Optional[Progress] = None,
    ) -> Run:
        """Runs the model over texts. ``keep``: "layers.3.weights", "layers.*.weights", "logits", "*" for all.

        ``progress`` is called with the finished share, 0 to 1, between layers.
        """
        model, tokens = self._model, self.tokens(text)  # progress may close this model
        run = model.run(
            tokens._tokens, _names("keep", keep), _patches(patches), flag("streams", streams), whole("threads", threads),
            _progress(progress))
        known = model.notes()
        warn_of((note for note in run.notes() if note not in known), 2)
        return Run(run, self)

    def stream(
        self,
        text: Text,
        stages: Names,
        use: Callable[[str, tuple[int, int, int], npt.NDArray[Any]], Any],
        *,
        patches: Optional[Patches] = None,
        threads: int = 0,
        progress: Optional[Progress] = None,
    ) -> None:
        """Runs once without keeping stages: calls ``use("layers.0.weights", (text, head, token), rows)`` for computed rows."""
        if not callable(use):
            raise Error(f"{shown(use)} is not a function of a name, a place and rows")
        self._model.stream(
            self.tokens(text)._tokens, _names("stages", stages), use, _patches(patches), whole("threads", threads),
            _progress(progress))

    def layer(
        self,
        layer: Union[int, str],
        text: Optional[Text] = None,
        *,
        threads: int = 0,
        progress: Optional[Progress] = None,
    ) -> Layer:
        """A single layer: its weights and settings, without an input or with the input that texts give it."""
        if not is_layer(layer):
            raise Error(f"the layer is {shown(layer)}: a number or a name expected")
        model, tokens = self._model, None if text is None else self.tokens(text)._tokens
        made = model.layer(str(layer), tokens, whole("threads", threads), _progress(progress))
        return Layer(made, self.folder, str(layer))

    def diff(
        self, text: Text, saved: Saved, *, stages: Any = None, atol: Optional[float] = None,
        rtol: Optional[float] = None, threads: int = 0, progress: Optional[Progress] = None,
    ) -> Differences:
        """Compares saved stages of another implementation with those of the model for a text, stage by stage.

        ``saved``: a file, several files, or arrays by name, such as another model's run. ``stages``: those that must be
        compared; default: all saved ones. ``verdict`` is "equal" only if all of them were compared and agree.
        """
        model, tokens = self._model, self.tokens(text)
        files, arrays = _saved(saved)
        found, notes = _differences(_core.diff_model(
            model, tokens._tokens, files, arrays, _asked(stages, atol, rtol), whole("threads", threads),
            _progress(progress)))
        known = model.notes()
        warn_of((note for note in notes if note not in known), 2)
        return found

    def diagnose(
        self, text: Text, saved: Saved, *, threads: int = 0, progress: Optional[Progress] = None
    ) -> Findings:
        """Finds how another implementation differs, from its saved stages for a text.

        ``saved``: a file, several files, or arrays by name, ``{"layers.0.q": q, "logits": logits}``, such as another
        model's run.
        """
        model, tokens = self._model, self.tokens(text)
        files, arrays = _saved(saved)
        found, notes = _findings(_core.diagnose_model(
            model, tokens._tokens, files, arrays, whole("threads", threads), _progress(progress)))
        known = model.notes()
        warn_of((note for note in notes if note not in known), 2)
        return found

    def weight(self, name: Key) -> npt.NDArray[Any]:
        """A weight, (in, out): ``"layers.3.W_q"`` or ``("W_q", 3)``, ``"layers.3.mlp.in"``, ``"W_U"``.

        Outside the layers: ``"W_E"`` (vocabulary, d_model), ``"W_pos"``, ``"final_norm.weight"``, ``"W_U"``, ``"b_U"``.
        """
        return self._model.weight(word("the weight", key_of(name) if isinstance(name, tuple) else name))

    def with_(self, name: Key, weight: Any) -> Model:
        """A new model with another weight of attention; this one is unchanged."""
        named = word("the weight", key_of(name) if isinstance(name, tuple) else name)
        made = Model._made(self._model.with_(named, kept(named, weight)))
        known = self._model.notes()
        warn_of((note for note in made._model.notes() if note not in known), 2)
        return made

    def __repr__(self) -> str:
        return "<mha.Model, closed>" if self._opened is None else f"<mha.Model of {self.folder}: {self.layers} layers>"
