"""How time and memory grow: with the number of tokens, and with the width."""
import json
import os
import statistics

import numpy as np

import layers
from plot import Panel, picture
from report import duration, size
from turns import progress

HEAD = 64  # d_k


def measure_layer(bench, T, d_model):
    """Whole programs, from an .npz to the output in a .npy: {name: value}."""
    heads = d_model // HEAD
    progress(f"growth: T {T}, d_model {d_model}, H {heads}")
    layer = layers.Layer(T, d_model, heads)
    source, target = layer.save(bench.path("layer.npz")), bench.path("output.npy")
    runs = [bench.ours("dump", source, "--stage", "output", "-o", target, "--timings")
            for _ in range(1 + min(5, bench.rounds))][1:]
    rows = np.unique(np.linspace(0, T - 1, 7).astype(int))
    layers.check_close("mha-inspect", f"output of T {T}, d_model {d_model}", np.load(target)[rows],
                       layers.Reference(layer).output(rows))
    timings = [json.loads(run.errors.strip().split("\n")[-1]) for run in runs]
    found = {
        "seconds": statistics.median(run.seconds for run in runs),
        "compute": statistics.median(timing["compute_s"] for timing in timings),
        "peak": statistics.median(run.peak for run in runs),
        "files": os.path.getsize(source) + os.path.getsize(target),
        "map": heads * T * T * 4,
    }
    os.remove(source)
    return found


def series(bench, points, shape_of):
    """[(point, what was measured)] for T or d_model."""
    return [(point, measure_layer(bench, *shape_of(point))) for point in points]


def doubling(first, last):
    return [first << i for i in range(64) if first << i <= last]


def table(page, letter, measured):
    rows = [[point, duration(found["compute"]), duration(found["seconds"]), size(found["peak"]), size(found["files"]),
             size(found["map"])] for point, found in measured]
    page.table("growth", None, rows, [letter, "compute", "whole program", "peak memory", "input, weights, output",
                                      "one T×S stage, not kept"])


def measure_growth(bench, page):
    tokens = series(bench, doubling(128, bench.given.longest), lambda T: (T, 512))
    widths = series(bench, doubling(512, min(8192, bench.given.longest)), lambda d_model: (256, d_model))
    table(page, "T (d_model 512, H 8)", tokens)
    table(page, "d_model (T 256, d_k 64)", widths)

    def line(measured, field, scale=1.0):
        return [(point, found[field] * scale) for point, found in measured]

    page.picture("growth", picture("Time and peak memory of `mha-inspect dump --stage output`", [
        Panel("seconds", "T (d_model 512)", [("whole program", line(tokens, "seconds")),
                                             ("compute", line(tokens, "compute"))]),
        Panel("seconds", "d_model (T 256)", [("whole program", line(widths, "seconds")),
                                             ("compute", line(widths, "compute"))]),
        Panel("MiB", "T (d_model 512)", [("peak memory", line(tokens, "peak", 2**-20)),
                                         ("one T×S stage", line(tokens, "map", 2**-20))]),
        Panel("MiB", "d_model (T 256)", [("peak memory", line(widths, "peak", 2**-20)),
                                         ("the files", line(widths, "files", 2**-20))]),
    ]))
