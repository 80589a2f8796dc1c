"""Whole programs: from files to files, with the time to start and the memory of all of it."""
import json
import os
import shutil
import statistics
import time

import numpy as np

import layers
import machine
from compute import SIZES
from report import aim, duration, ratio, share, size
from turns import PTHREAD, environment, in_turns, progress, ratios

SMALL = (16, 64, 4)
AIM_SMALL = 8e-3  # seconds
AIM_NUMPY, AIM_TORCH, AIM_MEMORY = 2.5, 6, 1 / 5
AIM_LONG_MEMORY, AIM_DISK = 400 << 20, 0.7
AIM_JSON, AIM_JSON_MEMORY = 2, 3


def median_of(results, field):
    return statistics.median(getattr(took, field) for took in results)


# More than anybody takes, the file in the system's cache included.
MOST_MEMORY = 3 << 29


def remove(path):
    """Untimed: what is still to be written for one must not slow the next. Nor must memory that a virtual machine's
    host has taken back meanwhile: a page then costs ten times as much, of whoever touches it first."""
    if os.path.exists(path):
        os.remove(path)
    os.sync()
    np.empty(MOST_MEMORY, np.uint8).fill(1)


def check_weights(who, path, reference):
    weights = np.load(path, mmap_mode="r")
    for head in range(reference.heads):
        layers.check_close(who, f"weights of head {head}", weights[head], reference.weights(head))


def measure_dump(bench, shape, times):
    """weights from .npz to .npy, by everybody, `times` times a round. Returns {who: [Took]}."""
    T, d_model, heads = shape
    layer = layers.Layer(T, d_model, heads)
    source, target = layer.save(bench.path("layer.npz")), bench.path("weights.npy")
    here, env = machine.HERE, environment(**PTHREAD)
    numpy = [machine.PYTHON, os.path.join(here, "peer_numpy.py")]
    passive = environment(**PTHREAD, OMP_WAIT_POLICY="passive")  # two pools of threads, see turns.py
    work = {
        "mha-inspect": lambda: bench.ours("dump", source, "--stage", "weights", "-o", target),
        "NumPy": lambda: bench.measured(*numpy, "dump", source, target, env=env),
        "NumPy, plain": lambda: bench.measured(*numpy, "plain", source, target, env=env),
        "PyTorch": lambda: bench.measured(machine.PYTHON, os.path.join(here, "peer_torch.py"), "dump",
                                          str(machine.cores()), source, target, env=passive),
    }
    reference = layers.Reference(layer)
    for who, run in work.items():  # the warm-up, too: programs and libraries come from the disk only once
        remove(target)
        run()
        check_weights(who, target, reference)

    def turn(run):
        remove(target)
        return [run() for _ in range(times)]

    results = in_turns({who: lambda run=run: turn(run) for who, run in work.items()}, bench.rounds)
    remove(target)
    return results


def measure_process(bench, page):
    rows = []
    for name, shape, times in (("small", SMALL, 5), ("c", SIZES["c"], 1)):
        T, d_model, heads = shape
        progress(f"whole program {name}: T {T}, d_model {d_model}, H {heads}")
        results = measure_dump(bench, shape, times)
        seconds = {who: [median_of(turn, "seconds") for turn in turns] for who, turns in results.items()}
        peak = {who: median_of([took for turn in turns for took in turn], "peak") for who, turns in results.items()}
        middle = {who: median_of([took for turn in turns for took in turn], "seconds") for who, turns in results.items()}
        slower = {who: ratios(seconds[who], seconds["mha-inspect"]) for who in seconds}
        memory = peak["mha-inspect"] / peak["NumPy"]
        aims = {who: "" for who in results}
        if name == "small":
            aims["mha-inspect"] = aim(f"≤ {AIM_SMALL * 1e3:.0f} ms", middle["mha-inspect"] <= AIM_SMALL)
        else:
            aims["mha-inspect"] = aim("memory ≤ 1/5 of NumPy's", memory <= AIM_MEMORY)
            for who, least in (("NumPy", AIM_NUMPY), ("PyTorch", AIM_TORCH)):
                aims[who] = aim(f"≥ {least}×", statistics.median(slower[who]) >= least)
        rows += [[f"T {T}, {d_model}, H {heads}: {who}", duration(middle[who]),
                  "" if who == "mha-inspect" else ratio(slower[who]), size(peak[who]), aims[who]] for who in results]
    page.table("process", None, rows, ["weights, .npz to .npy", "seconds", "of mha-inspect's", "peak memory", "aim"])


def check_half_rows(path, reference, T):
    """Some rows of float16 weights: rounded once from float32, as exactly as that can be."""
    weights = np.load(path, mmap_mode="r")
    rows = np.array([0, 1, 255, 256, T // 2, T - 2, T - 1])
    for head in (0, reference.heads - 1):
        expected = reference.weights(head, rows)
        allowed = expected * 2.0**-11 * 1.01 + 2.0**-25 + layers.TOLERANCE * expected
        if not np.all(np.abs(weights[head][rows].astype(np.float64) - expected) <= allowed):
            raise layers.Mismatch(f"mha-inspect: float16 weights of head {head} differ from float64")


def measure_long(bench, page):
    T, d_model, heads = bench.given.longest, 512, 8
    count = heads * T * T * 2
    free = shutil.disk_usage(bench.folder).free
    if free < 2.2 * count:
        print(f"\nlong: skipped: {size(free)} free in {bench.folder}, {size(2.2 * count)} needed (--folder, --longest)")
        return
    progress(f"long: T {T}, d_model {d_model}, H {heads}, {size(count)}")
    layer = layers.Layer(T, d_model, heads)
    source, target, zeros = layer.save(bench.path("layer.npz")), bench.path("w.npy"), bench.path("zeros")

    def turn(path, run):
        """(seconds of the program, seconds until the disk has the file, Took)"""
        remove(target)
        remove(zeros)
        start = time.perf_counter()
        took = run()
        with open(path, "rb") as file:
            os.fsync(file.fileno())
        return took.seconds, time.perf_counter() - start, took

    dump = ["dump", source, "--stage", "weights", "--dump-dtype", "f16", "-o", target]
    results = in_turns({
        "mha-inspect": lambda: turn(target, lambda: bench.ours(*dump)),
        "dd": lambda: turn(zeros, lambda: bench.measured("dd", "if=/dev/zero", "of=" + zeros, "bs=1M",
                                                         f"count={count >> 20}")),
    }, max(3, bench.rounds))
    remove(zeros)
    bench.ours(*dump)
    check_half_rows(target, layers.Reference(layer), T)
    remove(target)

    peak = max(took.peak for *_, took in results["mha-inspect"])
    rows = []
    for i, what in enumerate(("until the program ends", "until the disk has it")):
        ours, dd = ([turn[i] for turn in results[who]] for who in ("mha-inspect", "dd"))
        rate = ratios(dd, ours)
        rows.append([what, duration(statistics.median(ours)), duration(statistics.median(dd)), share(rate),
                     aim(f"≥ {100 * AIM_DISK:.0f} %", statistics.median(rate) >= AIM_DISK)])
    page.table("long", None, rows, [f"T {T}, {d_model}, H {heads}: {size(count)} of float16", "mha-inspect", "dd",
                                    "of dd's rate", "aim"],
               note=f"Peak memory: {size(peak)} {aim(f'(aim: < {size(AIM_LONG_MEMORY)})', peak < AIM_LONG_MEMORY)}")


JSON_LOAD = "import json, sys, time; start = time.perf_counter(); json.load(open(sys.argv[1])); print(time.perf_counter() - start)"


def measure_json(bench, page):
    progress("json: a layer of 60 MB")
    layer = layers.Layer(560, 768, 12)
    rng = np.random.default_rng(2)
    arrays = {name: rng.standard_normal(tensor.shape) for name, tensor in layer.tensors.items()}
    path, back = bench.path("layer.json"), bench.path("back.npz")
    with open(path, "w", encoding="utf-8") as file:
        json.dump({"num_heads": layer.heads, **{name: array.tolist() for name, array in arrays.items()}}, file)
    bench.ours("convert", path, "-o", back)
    with np.load(back) as archive:
        for name, array in arrays.items():
            if not np.array_equal(archive[name], array):
                raise layers.Mismatch(f"mha-inspect: {name} is read from JSON as other numbers than were written")

    def python():
        with open(bench.path("seconds"), "w+", encoding="utf-8") as out:
            took = bench.measured(machine.PYTHON, "-c", JSON_LOAD, path, output=out)
            out.seek(0)
            return float(out.read()), took

    def ours():
        took = bench.ours("info", path, "--timings")
        return json.loads(took.errors.strip().split("\n")[-1])["read_s"], took

    results = in_turns({"mha-inspect": ours, "Python": python}, bench.rounds)
    rows, numbers = [], sum(array.nbytes for array in arrays.values())
    peak = {who: max(took.peak for _, took in turns) for who, turns in results.items()}
    for what, of in (("reading alone", lambda turn: turn[0]), ("the whole program", lambda turn: turn[1].seconds)):
        mine, python_s = ([of(turn) for turn in results[who]] for who in ("mha-inspect", "Python"))
        faster = ratios(python_s, mine)
        rows.append([what, duration(statistics.median(mine)), duration(statistics.median(python_s)), ratio(faster),
                     aim(f"≥ {AIM_JSON}×", statistics.median(faster) >= AIM_JSON)])
    times = peak["mha-inspect"] / numbers
    rows.append(["peak memory", size(peak["mha-inspect"]), size(peak["Python"]), f"{times:.2f} × the arrays'",
                 aim(f"≤ {AIM_JSON_MEMORY} ×", times <= AIM_JSON_MEMORY)])
    page.table("json", None, rows, [f"{os.path.getsize(path) / 1e6:.0f} MB, arrays of {size(numbers)}",
                                    "mha-inspect info", "Python's json.load", "", "aim"])
