"""How far numbers may be from the exact ones: the model once more, each step off at random by what rounding leaves.

A product of n terms is off by about sqrt(n) u times the size of what is added up (Higham 2002, §4.2, of random signs); u is
half a unit in the last place of 1. Terms of either sign add up to what a row's numbers are as large as, terms of one sign to
the number itself: STEP u times the root of both squares stands for that, since sums here have 20 to 256 terms, of which blocks
and multiply-adds round fewer than each. What a step's error becomes in a result, nobody has to derive: a result is computed
from some runs with errors, and is as far from the exact one as they are.
"""
import numpy as np

from forward import Trace, run

U = 2.0 ** -24  # of float32
STEP = 2.0
ERRORS = np.random.default_rng(0).standard_normal(1 << 20)  # drawn once: a step takes some from a random place on
OF_ITSELF = ("weights", "loss", "perplexity")  # numbers that are off relative to themselves, not to their row


class Rounding:
    """Errors, or none at all (seed None: the exact numbers)."""

    def __init__(self, seed=None):
        self.random = None if seed is None else np.random.default_rng(seed)

    def __call__(self, value, of_itself=False):
        if self.random is None or np.asarray(value).dtype.kind == "i":  # an expert's number is not off
            return value
        value = np.asarray(value, float)
        finite = np.isfinite(value)
        known = np.where(finite, value, 0)
        squares = known * known
        size = abs(known) if of_itself or value.ndim == 0 else np.sqrt(squares.mean(-1, keepdims=True) + squares)
        errors = ERRORS[self.random.integers(len(ERRORS) // 2):][:value.size]
        return np.where(finite, known + STEP * U * size * np.resize(errors, value.shape), value)


class RoundedTrace(Trace):
    rounding = Rounding()

    def __call__(self, stage, value):
        value = self.rounding(super().__call__(stage, value), stage in OF_ITSELF)
        self.stages[self.prefix + stage] = value
        return value


class Reference:
    """A model's runs, with or without errors."""

    def __init__(self, case, seed=None):
        self.case, self.model, self.rounding, self.runs = case, case.model, Rounding(seed), {}

    def run(self, ids):
        """Every stage of a text."""
        key = tuple(ids)
        if key not in self.runs:
            self.runs[key] = {n: v[0] for n, v in self.each(ids, [{}]).items()}
        return self.runs[key]

    def each(self, ids, edits):
        """Every stage of a text's runs, one for each of `edits` ({"layers.0.head_out": function of its value}), which is
        the axis in front."""
        def together(changes):
            def changed(value):
                value = value.copy()
                for i, change in changes:
                    value[i] = change(value[i])
                return value
            return changed

        by_stage = {}
        for i, of_run in enumerate(edits):
            for stage, change in of_run.items():
                by_stage.setdefault(stage, []).append((i, change))
        trace = RoundedTrace(edits={stage: together(changes) for stage, changes in by_stage.items()})
        trace.rounding = self.rounding
        one = self.model.embed(np.asarray(ids))
        embed, self.model.embed = self.model.embed, lambda all_ids: np.repeat(one[None], len(all_ids), 0)
        try:
            stages = run(self.model, np.repeat(np.asarray(ids)[None], len(edits), 0), trace=trace)
        finally:
            self.model.embed = embed
        return {n: v for n, v in stages.items() if np.ndim(v) > 0}

    def stage(self, ids, n, name):
        return self.run(ids)[f"layers.{n}.{name}"]
