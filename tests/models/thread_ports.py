"""Wrong ports from public threads: how a row of them is written, run and judged. The rows are in threads.py and its siblings.

The mistake is an edit of unseen.Port, on the family of the thread or on one that has the step. `diff` must find it, and the
command that `diff` prints must name it: a cause of the row's own where the layers of the row are wrong, and none elsewhere; or,
for a capture that is none, the sentence that says so.
"""
import argparse
import concurrent.futures
import copy
import json
import os
import re
import shlex
import subprocess
import tempfile

import numpy as np

from clean import ROUND, SAVED
from unseen import Port, SEEN, differs, saved

HERE = os.path.dirname(os.path.abspath(__file__))
THREADS = []


class Thread:
    """`ids` that tell it, or `says`: a pattern of what is said. `layers` of the port that have it; None: it is none of theirs."""

    def __init__(self, source, ids, model, ways, plant, layers=None, says="", ends=False, precision="f32"):
        self.source, self.ids, self.model, self.ways, self.plant = source, set(ids.split()), model, ways.split(), plant
        self.layers, self.says, self.ends, self.precision = layers, says, ends, precision

    @property
    def name(self):
        return self.plant.__name__


def thread(source, ids, model, ways="states", **more):
    def register(plant):
        THREADS.append(Thread(source, ids, model, ways, plant, **more))
        return plant
    return register


def each(port, layers=None):
    return [(n, b) for n, b in enumerate(port.blocks) if layers is None or n in layers]


def frequencies(block, edit):
    """New frequencies in a rope of the block's own."""
    rope = block.attention.rope = copy.copy(block.attention.rope)
    rope.frequencies = edit(np.asarray(rope.frequencies))

def split_in_three(port):
    """Fused rows of (q, k, v) of each head, taken apart as if all queries stood first, then all keys."""
    for _, b in each(port):
        a = b.attention
        H = a.num_heads
        rows = [np.stack([p.weight.T.reshape(H, -1, p.weight.shape[0]) for p in (a.q, a.k, a.v)], 1).reshape(-1, a.q.weight.shape[0]),
                np.stack([np.broadcast_to(p.bias, p.weight.shape[1:]).reshape(H, -1) for p in (a.q, a.k, a.v)], 1).reshape(-1)]
        weights, biases = np.split(rows[0], 3), np.split(rows[1], 3)
        for p, w, c in zip((a.q, a.k, a.v), weights, biases):
            p.weight, p.bias = w.T, c


# Running them ----------------------------------------------------------------------------------------

def seen(folder, port, tensors, rng, kind):
    """Whether what was saved shows the mistake beyond the precision's rounding."""
    right = Port(folder)
    right.text, right.factor = port.text, port.factor if not port.at.get("factor") else right.factor
    right.run(port.text)
    return differs(tensors, saved(right, rng, kind), SEEN["f64"] / 10)


def cases(models, only):
    for at, thread_ in enumerate(THREADS):
        if thread_.model not in models or only and not any(w in thread_.name or w in thread_.source for w in only):
            continue
        rng = np.random.default_rng([7, at])
        for way in thread_.ways:
            port = Port(models[thread_.model])
            port.original = copy.deepcopy(port.blocks)
            port.text = [int(x) for x in rng.integers(5, len(port.words), 10)]
            rows = port.words[port.text]
            if port.places is None and not port.embed_norm:
                port.factor = float((port.model.embed(np.array(port.text)) * rows).sum() / (rows * rows).sum())
            port.round = ROUND[thread_.precision]
            made = thread_.plant(port)
            if way == "own":
                tensors = made
            else:
                port.run(port.text)
                kind = way if way in ("everything", "states", "states_and_logits", "logits", "streams", "last_token") else "tool:" + way
                tensors = saved(port, rng, kind)
            if not tensors:
                continue
            kept = {n: v if np.asarray(v).dtype.kind in "iu" else np.asarray(v, SAVED[thread_.precision]) for n, v in tensors.items()}
            if way != "own" and not seen(models[thread_.model], port, tensors, rng, kind):
                continue
            yield {"thread": thread_, "way": way, "text": port.text, "folder": models[thread_.model], "tensors": kept, "layers": len(port.blocks)}


def judged(case, program, path):
    """(verdict, why, commands)"""
    t = case["thread"]
    words = [program, "diff", case["folder"], "--ids", ",".join(map(str, case["text"])), "--threads", "1", "--against", path]
    done = subprocess.run(words, capture_output=True, text=True)
    first = " ".join(done.stdout.split())
    if done.returncode == 2 and not done.stdout:  # with a table it is a verdict: not all was compared
        said = not t.ids and t.says and re.search(t.says, done.stderr)
        return ("named" if said else "error"), "diff: " + done.stderr.strip(), words
    find = re.search(r"^Find why:\s*(.*)$", done.stdout, re.M)
    if not find:
        return ("named" if t.says and re.search(t.says, first) and not t.ids else "missed"), f"diff exit {done.returncode}: " + first[:300], words
    why = [program] + shlex.split(find.group(1))[1:]
    told = subprocess.run(why, capture_output=True, text=True)
    flat = " ".join(told.stdout.split())
    if told.returncode == 2:
        return "error", "diagnose: " + told.stderr.strip(), why
    found = json.loads(subprocess.run(why + ["--format", "json", "--quiet"], capture_output=True, text=True).stdout)
    places = {"": found} if "changes" in found else found
    causes = {at: {c["id"] for c in one["changes"]} | set(one["same_numbers"]) for at, one in places.items()}
    rounds = {f"precision.{p}" for p in ("f32", "bf16", "f16")} - t.ids
    causes = {at: ids - rounds for at, ids in causes.items()}
    text = "; ".join(f"{at or 'end'}: {' '.join(sorted(ids))}" for at, ids in causes.items() if ids) or "nothing"
    said = bool(t.says and re.search(t.says, first + " " + flat))
    good = [at for at, ids in causes.items() if ids & t.ids]
    bad = [at for at, ids in causes.items() if ids and not ids & t.ids]
    wrong_place = [at for at in good if t.layers is not None and re.search(r"\d+", at) and int(re.search(r"\d+", at).group()) not in t.layers]
    if good:
        return ("extra" if bad or wrong_place else "named"), text, why
    if bad:
        return "misled", text, why
    return ("named" if said else "missed"), text + " | " + flat[:400], why


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("models")
    parser.add_argument("--only", action="append")
    parser.add_argument("--show", action="store_true", help="the command of what is not named")
    parser.add_argument("--all", action="store_true", help="fail where one is not named")
    parser.add_argument("--keep")
    parser.add_argument("-j", type=int, default=2)
    args = parser.parse_args()
    folder = args.keep or tempfile.mkdtemp()
    os.makedirs(folder, exist_ok=True)
    models = {m: os.path.join(args.models, m) for m in os.listdir(args.models) if os.path.isdir(os.path.join(args.models, m))}
    models |= {m: os.path.join(HERE, "../../data", m) for m in ("bard-llama", "bard-gpt2", "bard-bert")}

    def do(case):
        path = os.path.join(folder, f"{case['thread'].name}-{case['way']}.npz")
        np.savez(path, **case["tensors"])
        return case, *judged(case, os.path.abspath(args.program), path)

    counts = {}
    with concurrent.futures.ThreadPoolExecutor(args.j) as pool:
        for case, verdict, text, words in pool.map(do, cases(models, args.only)):
            counts[verdict] = counts.get(verdict, 0) + 1
            if verdict != "named":
                print(f"{verdict} {case['thread'].source} {case['thread'].name} {case['way']} ({case['thread'].model}): {text}", flush=True)
                if args.show:
                    print("    " + shlex.join(words), flush=True)
    total = sum(counts.values())
    print(f"{counts.get('named', 0)} of {total} captures of {len(THREADS)} ports are named: {counts}")
    return 0 if counts.get("named", 0) >= (1 if args.all else 0.9) * total else 1
