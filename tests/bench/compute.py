"""In memory: from arrays to arrays, float32."""
import os
import statistics

import numpy as np

import layers
import machine
from onnx_model import attention_model
from report import aim, duration, ratio, share
from turns import SETTINGS, TURN, fastest_worker, in_turns, progress, ratios

SIZES = {"a": (128, 768, 12), "b": (1024, 768, 12), "c": (2048, 1024, 16), "d": (4096, 512, 8)}
# Against ONNX Runtime, and of the rate of one large product.
AIMS = {
    ("output",): {"a": 1.1, "b": 1.25, "c": 1.35, "d": 1.5},
    ("weights", "output"): {"a": 1.1, "b": 1.9, "c": 2.2, "d": 2.6},
}
AIM_CAUSAL, AIM_CAUSAL_ATTENTION = 1.5, 1.7

ORT, ORT_GIVEN = "ONNX Runtime", "ONNX Runtime, arrays given"
NUMPY, TORCH, MODULE = "NumPy", "PyTorch", "PyTorch's module"


def start_peers(bench, layer, source, kept):
    """{name: Worker}, each in its fastest setting."""
    here, threads, stages = machine.HERE, str(machine.cores()), ",".join(kept)
    model, x = bench.path("layer.onnx"), bench.path("X.npy")
    with open(model, "wb") as file:
        file.write(attention_model(layer, kept))
    np.save(x, layer.tensors["X"])
    onnx = ["node", "--expose-gc", os.path.join(here, "onnx_peer.mjs"), bench.modules, model, x, threads]
    torch = [machine.PYTHON, os.path.join(here, "peer_torch.py")]
    commands = {
        ORT: (onnx + ["fresh"], "ONNX Runtime"),
        ORT_GIVEN: (onnx + ["given"], "ONNX Runtime"),
        TORCH: (torch + ["stages", threads, source, stages], "PyTorch"),
        MODULE: (torch + ["module", threads, source, stages], "PyTorch"),
        NUMPY: ([machine.PYTHON, os.path.join(here, "peer_numpy.py"), "serve", source, stages], "NumPy"),
    }
    return {name: fastest_worker(command, SETTINGS[kind]) for name, (command, kind) in commands.items()}


def verify(bench, layer, source, kept, workers):
    """Everybody's stages against float64. Returns {who: largest error}."""
    results = {}
    for who, worker in workers.items():
        folder = bench.path(f"result-{len(results)}")
        os.makedirs(folder, exist_ok=True)
        worker.ask(save=folder)
        results[who] = layers.load_stages(folder, kept)
    ours = bench.path("result-ours")
    bench.ours("dump", source, "-s", ",".join(kept), "-o", ours)
    results["mha-inspect"] = layers.load_stages(ours, kept)
    return layers.check_stages(results, layer, kept)


def measure_size(bench, name, kept):
    """One row of a table."""
    T, d_model, heads = SIZES[name]
    progress(f"compute {name}, {' and '.join(kept)}: T {T}, d_model {d_model}, H {heads}")
    layer = layers.Layer(T, d_model, heads)
    source = layer.save(bench.path("layer.npz"))
    workers = start_peers(bench, layer, source, kept)
    errors = verify(bench, layer, source, kept, workers)

    stages = ["--stage", ",".join(kept)]
    once = bench.bench(source, *stages, "--repeat", "3")["median_s"]
    repeat = ["--repeat", str(max(TURN["least"], round(TURN["seconds"] / once)))]
    work = {"mha-inspect": lambda: bench.bench(source, *stages, *repeat)}
    work.update((who, worker.turn) for who, worker in workers.items())
    results = in_turns(work, bench.rounds)
    for worker in workers.values():
        worker.stop()

    ours = [run["median_s"] for run in results["mha-inspect"]]
    against = {who: ratios(results[who], ours) for who in workers}
    fraction = [run["peak_fraction"] for run in results["mha-inspect"]]
    least = AIMS[kept][name]
    row = [f"{name}: T {T}, {d_model}, H {heads}", duration(statistics.median(ours))]
    row += [ratio(against[who]) for who in workers]
    row += [aim(f"≥ {least}×", statistics.median(against[ORT]) >= least)]
    if kept == ("output",):
        row += [share(fraction)]
    return row, max(errors.values())


def measure_compute(bench, page):
    for kept in AIMS:
        measured = [measure_size(bench, name, kept) for name in SIZES if name in bench.given.sizes]
        heading = ["size", "mha-inspect", ORT, ORT_GIVEN, TORCH, MODULE, NUMPY, "aim, ONNX Runtime"]
        if kept == ("output",):
            heading += ["of the peak"]
        page.table(
            "compute", "Output only" if len(kept) == 1 else "Weights and output kept", [row for row, _ in measured], heading,
            note=f"Seconds of mha-inspect; the others' as multiples of it, the median of {bench.rounds} rounds and the "
                 "lowest and highest. All results are within "
                 f"{max(error for _, error in measured):.0e} of float64's, relative to the largest number.")


def measure_causal(bench, page):
    T, d_model, heads = SIZES["d"]
    progress(f"causal: T {T}, d_model {d_model}, H {heads}")
    layer = layers.Layer(T, d_model, heads)
    source = layer.save(bench.path("layer.npz"))
    folder = bench.path("result-causal")
    bench.ours("dump", source, "--causal", "-s", "output", "-o", folder + os.sep)
    layers.check_stages({"mha-inspect, causal": layers.load_stages(folder, ["output"])}, layer, ["output"], causal=True)

    results = in_turns({"full": lambda: bench.bench(source, "--repeat", "5"),
                        "causal": lambda: bench.bench(source, "--repeat", "5", "--causal")}, bench.rounds)
    rows = []
    for what, of, least in (("the whole", lambda run: run["median_s"], AIM_CAUSAL),
                            ("its attention", lambda run: run["parts"]["attention"], AIM_CAUSAL_ATTENTION)):
        full, causal = ([of(run) for run in results[which]] for which in ("full", "causal"))
        faster = ratios(full, causal)
        rows.append([what, duration(statistics.median(full)), duration(statistics.median(causal)), ratio(faster),
                     aim(f"≥ {least}×", statistics.median(faster) >= least)])
    page.table("causal", None, rows, [f"T {T}, {d_model}, H {heads}", "not causal", "causal", "faster by", "aim"])
