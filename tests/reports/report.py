"""The list that the files mistakes_*.py fill: a real report, and the edit that rebuilds it."""
from dataclasses import dataclass
from typing import Callable


@dataclass
class Report:
    source: str     # owner/repository#number
    causes: str     # a regular expression of the identifiers that name it
    layer: str      # of layers.py
    edit: Callable  # of a right Port
    told_by: str    # "output": the output alone can tell, too; "stages": all stages can
    seed: int

    @property
    def text(self):
        return self.edit.__doc__


REPORTS = []


def report(source, causes, layer, told_by="output"):
    """Several sources: the same mistake in several programs, each rebuilt on weights of its own;
    layers may be as many, separated by spaces."""
    def add(edit):
        layers = layer.split()
        for i, one in enumerate(source.split()):
            seed = len(REPORTS) + 1
            REPORTS.append(Report(one, causes, layers[i % len(layers)], edit, told_by, seed))
        return edit
    return add
