#!/usr/bin/env python3
"""Plants mistakes in ports of whole models, and counts those that `diagnose` names.

    /usr/bin/python3 tests/models/ports.py PROGRAM MODELS [--only NAME] [--model NAME] [--precision bf16] [--show] [-j N]

MODELS is a folder that make.py wrote. Every mistake of mistakes.py that a model can have is planted, and of
mixture_mistakes.py where it has mixtures of experts, or those of gated_mistakes.py in its families; saved as all
stages, as hidden states and as logits, and diagnosed. Of models with layers that are not computed, one layer's stages
are. With --precision bf16 each step of a port is rounded to it and stored so. Exit code 1 where fewer than nine, eight and
six of ten are named.
"""
import argparse
import concurrent.futures
import json
import os
import subprocess
import sys
import tempfile
import time
from fnmatch import fnmatch

import numpy as np

import gated_mistakes as gated
import mistakes
import safetensors
from clean import RoundingTrace
from forward import Mixture
from gated_families import GATED
from gated_mistakes import LonePort, gated_mistakes
from mistakes import Port, all_mistakes, plant
from mixture_mistakes import mixture_mistakes
from write import known_family, load

MODELS = ("gpt2 nanogpt llama-rope-parameters llama2-gqa mistral-no-window mistral qwen2-window qwen3-untied phi3-su gemma gemma2 "
          "gemma3-layer-types neox-parallel neox-sequential bert roberta distilbert tl-rms-gated tl-rmspre-parallel "
          "mixtral qwen2_moe qwen3_moe-stacked olmoe gpt_oss deepseek_v2 deepseek_v3 glm4_moe granitemoe ernie4_5_moe minimax_m2 "
          "dots1 "
          "afmoe afmoe-wide qwen3_next qwen3_next-wide qwen3_5_text laguna laguna-m.1 step3p5 step3p5-clamped mimo_v2_flash "
          "llama4_text gemma4_text bailing_moe_v2").split()
WANTED = {"all": 0.9, "states": 0.8, "logits": 0.6}
SEEN = 1e-4  # of the root mean square: what a capture must differ by to show a mistake
ABOVE_ROUNDING = 4


def captures_of(port, ids):
    stages = port.run(ids)
    found = {"all": {n: v for n, v in stages.items() if n not in ("loss", "perplexity")}}
    if not isinstance(port, LonePort):
        found["states"] = {"hidden_states": port.states}
    if "logits" in stages:
        found["logits"] = {"logits": stages["logits"]}
    return found


def apart(a, b):
    """How far numbers are at most from others, of these ones' root mean square."""
    if a.shape != b.shape:
        return np.inf
    a, b = (np.where(np.isfinite(x), x, 0).astype(float) for x in (a, b))
    return np.abs(a - b).max() / max(np.sqrt((b * b).mean()), 1e-30)


def shows(capture, right, exact):
    """Whether a mistake is more than a trifle, and more than a right port's rounding leaves of it."""
    return any(name not in right or apart(value, right[name]) > max(SEEN, ABOVE_ROUNDING * apart(right[name], exact[name]))
               for name, value in capture.items())


def save(path, tensors, precision):
    if precision == "f32":
        np.savez(path, **{name: np.asarray(value, np.float32) for name, value in tensors.items()})
    else:
        safetensors.write(path, {name: ("I64" if value.dtype.kind == "i" else "BF16", value) for name, value in tensors.items()})


def named(found):
    ids, explained = set(), True
    for one in ([found] if "changes" in found else found.values()):
        ids |= {change["id"] for change in one["changes"]} | set(one["same_numbers"])
        explained &= one["explained"]
    return ids, explained


def input_of(folder, model):
    """What the model runs on; the words for it; and how it runs."""
    path = os.path.join(folder, "expected.npz")
    expected = np.load(path)
    if None in model.blocks:
        number = LonePort(model, {}).number
        stream = f"layers.{number}.resid_pre"
        return expected[stream], ["--layer", str(number), f"X={path}:{stream}", "--input-norm", "checkpoint"], LonePort
    ids = (expected["ids"] if expected["ids"].ndim == 1 else expected["ids"][0]).tolist()
    return ids, ["--ids", ",".join(map(str, ids))], Port


def mistakes_of(model, config):
    if known_family(config) in GATED:
        return gated_mistakes()
    mixed = any(isinstance(block.feed_forward, Mixture) for block in model.blocks)
    return mixture_mistakes() if mixed else all_mistakes()


def run(program, folder, given, path, *more):
    words = [program, "diagnose", folder, *given, "--quiet", "--threads", "1", "--against", path, *more]
    done = subprocess.run(words, capture_output=True, text=True)
    return done.returncode, done.stdout, done.stderr


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("models")
    parser.add_argument("--only", action="append")
    parser.add_argument("--model", action="append")
    parser.add_argument("--capture", action="append")
    parser.add_argument("--precision", choices=("f32", "bf16"), default="f32")
    parser.add_argument("--show", action="store_true", help="what is printed of those that are not named")
    parser.add_argument("--keep")
    parser.add_argument("-j", type=int, default=2)
    args = parser.parse_args()
    out = args.keep or tempfile.mkdtemp()
    os.makedirs(out, exist_ok=True)
    jobs = []
    mistakes.Trace = gated.Trace = RoundingTrace
    for name in args.model or MODELS:
        folder = os.path.join(args.models, name)
        model, config = load(folder), json.load(open(os.path.join(folder, "config.json")))
        ids, given, kind = input_of(folder, model)
        right = None
        for mistake in mistakes_of(model, config):
            if args.only and not any(one in mistake.name for one in args.only):
                continue
            if right is None:
                RoundingTrace.precision = "f64"
                exact = captures_of(kind(model, config), ids)
                RoundingTrace.precision = "f64" if args.precision == "f32" else args.precision
                right = captures_of(kind(model, config), ids)
            port = plant(load(folder), config, mistake, kind)
            if port is None:
                continue
            for capture, tensors in captures_of(port, ids).items():
                if args.capture and capture not in args.capture:
                    continue
                if capture == "logits" and not mistake.seen_in_logits:
                    continue
                tensors = {n: np.asarray(v) for n, v in tensors.items()}
                if not shows(tensors, right[capture], exact[capture]):
                    continue
                path = os.path.join(out, f"{name}-{mistake.name}-{capture}.{'npz' if args.precision == 'f32' else 'safetensors'}")
                save(path, tensors, args.precision)
                jobs.append((name, mistake, capture, folder, given, path))

    def do(job):
        name, mistake, capture, folder, given, path = job
        first = time.time()
        done = run(args.program, folder, given, path, "--format", "json")
        if time.time() - first > 5:
            print(f"slow {os.path.basename(path)}: {time.time() - first:.1f} s", flush=True)
        return job, done

    counts, missed, misled = {}, [], []
    with concurrent.futures.ThreadPoolExecutor(args.j) as pool:
        for (name, mistake, capture, folder, given, path), (code, text, error) in pool.map(do, jobs):
            count = counts.setdefault(capture, [0, 0])
            count[1] += 1
            label = f"{name} {mistake.name} {capture}"
            if code not in (0, 1):  # an error, or a signal
                missed.append(f"{label}: {code} {error.strip()}")
                print("ERROR", missed[-1], flush=True)
                continue
            found, explained = named(json.loads(text))
            if any(fnmatch(one, id) for one in found for id in mistake.ids.split()):
                count[0] += 1
                continue
            (misled if explained else missed).append(f"{label}: {' '.join(sorted(found)) or 'nothing'}"
                                                     f"{' (explained)' if explained else ''}")
            print("MISLED" if explained else "missed", (misled if explained else missed)[-1], flush=True)
            if args.show:
                print(run(args.program, folder, given, path)[1])
    enough = True
    for capture, (good, all_) in counts.items():
        print(f"{capture}: {good} of {all_}")
        enough &= good >= WANTED[capture] * all_
    return 0 if enough else 1


if __name__ == "__main__":
    sys.exit(main())
