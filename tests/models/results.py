#!/usr/bin/env python3
"""Every result over random checkpoints of every family: the program's numbers beside NumPy's in float64.

    /usr/bin/python3 tests/models/results.py PROGRAM [--some] [--model NAME] [--result NAME] [--precision f32|f64] [--show] [-j N]

RESULTS has a row for each: a command, what its output says, and a formula of results_of_*.py. A number may be as far from the
exact one as rounding lets it be (rounding.py), SLACK times; what is no number is what a run with rounding gives, too. What a
model has not is refused by name. --some is the share that CI runs: every result, every trait of a model. Exit code 1 where a
number is wrong, missing or too much.
"""
import argparse
import concurrent.futures
import json
import os
import subprocess
import sys
import tempfile
import time
import zlib

import numpy as np

import described_ways
import later_families
import make
import more_text_families
import results_of_maps as maps
import results_of_runs as runs
import results_of_weights as weights
import results_read as read
import text_families
from results_of_runs import Answer, Refused
from rounding import Reference, U
from safetensors import read_folder, rounded
from variants import TL, VARIANTS, Variant
from write import load, write_folder

DRAWS, SLACK = 4, 16.0
IN_DOUBLE = 2.0 ** -25  # of float32's errors: float64's are 2^-29 of them, NumPy has its own, LAPACK's are of whole matrices
OF_DIFFERENCES = 2.0 ** -46  # numbers that are the difference of two of size 1 to 8, in float64: divergences
IN_SINGLE = ("similarity",)  # kept in float32 whatever is computed in
TABLES = ("wte.weight", "embed_tokens.weight", "word_embeddings.weight", "tok_embeddings.weight", "embed_in.weight",
          "embed.W_E", "shared.weight", "tokens_embed.weight", "words.weight")
WIDENING = ("embedding_hidden_mapping_in.weight", "embeddings_project.weight", "project_in.weight")  # out, in


# Models ------------------------------------------------------------------------------------------

class Case:
    """A checkpoint with a tokenizer, its model, and texts: two of one length, a shorter one."""

    def __init__(self, name, folder, config, model, naming=None, pad=None):
        self.name, self.folder, self.config, self.model, self.naming = name, folder, config, model, naming
        self.tensors = {n: np.asarray(a) for n, (_, a) in read_folder(folder)[1].items()}
        self.dtypes = {n: dtype for n, (dtype, _) in read_folder(folder)[1].items()}
        self.table = next(n for end in TABLES for n in self.tensors if n.endswith(end))
        self.layers, self.d = len(model.blocks), model.blocks[0].attention.q.weight.shape[0]
        self.random = np.random.default_rng(zlib.crc32(name.encode()))
        self.text = [self.words(12) for _ in range(3)]
        self.text[2] = self.text[2][:8]
        if pad is not None:
            self.text[0][3] = pad
        if config.get("token_dropout"):
            self.text[0][2] = config["mask_token_id"]
        for _ in range(100):  # two texts of which something else is foretold
            if not model.head or len({int(np.argmax(Reference(self).run(ids)["logits"][-1])) for ids in self.text[:2]}) == 2:
                break
            self.text[1] = self.words(12)
        self.write_tokenizer()
        np.save(self.path("vector.npy"), self.random.standard_normal(self.d).astype(">f8"))  # as another machine writes it
        self.references = [Reference(self, seed) for seed in [None, *range(DRAWS)]]

    def words(self, length):
        """Some tokens twice, others that separate."""
        ids = [int(i) for i in self.random.integers(8, len(self.tensors[self.table]), length)]
        ids[length // 2:length // 2 + 2] = ids[1:3]
        ids[4], ids[length - 3], ids[length - 2] = 5, 7, ids[2]
        return ids

    def write_tokenizer(self):
        pieces = [f"w{i}" for i in range(len(self.tensors[self.table]))]
        pieces[5], pieces[7] = ",", "."
        with open(self.path("tokenizer.json"), "w") as file:
            json.dump({"version": "1.0", "added_tokens": [], "normalizer": None, "pre_tokenizer": {"type": "WhitespaceSplit"},
                       "post_processor": None, "decoder": None,
                       "model": {"type": "WordLevel", "vocab": {p: i for i, p in enumerate(pieces)}, "unk_token": "w0"}}, file)

    def path(self, name):
        return os.path.join(self.folder, name)

    def rows_of_tokens(self, scaled):
        """W_E: of each token what enters the stream, without position and the embedding's own norm."""
        rows = self.tensors[self.table]
        if scaled and self.config.get("model_type", "").startswith(("gemma", "vaultgemma")):
            rows = rows * rounded(self.dtypes[self.table], self.d ** 0.5)
        elif scaled:
            rows = rows * self.config.get("embedding_multiplier", self.d ** 0.5 if self.config.get("scale_embedding") else
                                          1 - 0.15 * 0.8 if self.config.get("token_dropout") else 1)
        linear = next((n for end in WIDENING for n in self.tensors if n.endswith(end)), None)
        if "wide.kernel" in self.tensors:  # of described_ways.py; in, out
            return rows @ self.tensors["wide.kernel"]
        return rows if linear is None else rows @ self.tensors[linear].T

    def ids(self, *numbers):
        return [word for b in numbers for word in ("--ids", ",".join(map(str, self.text[b])))]

    def last(self):
        """The last layer and its last head."""
        return self.layers - 1, self.model.blocks[-1].attention.num_heads - 1

    def last_head(self):
        n, h = self.last()
        return ["--layer", str(n), "--head", str(h)]


def of_variant(variant):
    def build(folder):
        random = np.random.default_rng(zlib.crc32(variant.name.encode()))
        config = make.config_of(variant)
        write_folder(folder, config, make.checkpoint(variant, config, random), variant.shards)
        pad = config["pad_token_id"] if variant.pads else None
        return Case(variant.name, folder, config, load(folder), pad=pad)
    return build


def of_family(name, make_model):
    def build(folder):
        config, file, model = make_model()
        write_folder(folder, config, file.tensors)
        return Case(name, folder, config, model)
    return build


def of_way(name):
    def build(folder):
        way = described_ways.Way(list(described_ways.WAYS).index(name))
        described_ways.WAYS[name](way)
        way.write(folder)
        return Case(name, folder, way.config, way.model(), os.path.join(folder, "naming.json"))
    return build


# Those whose norms the other files do not compute, and what no family has.
WAYS = ("sinks", "sandwich", "sandwich-bias-of-norms", "norms-of-several-kinds", "head-scaled-and-capped",
        "embedding-without-a-bias", "parallel-batch-norm")
FEWER_LOGITS = Variant("tl-fewer-logits", TL, "tokens that no logit is of", {"d_vocab_out": 37})
MODELS = {v.name: of_variant(v) for v in [*VARIANTS, FEWER_LOGITS]}
for family in (text_families, more_text_families, later_families):
    MODELS |= {name: of_family(name, build) for name, build in family.MODELS.items()}
MODELS |= {"way-" + name: of_way(name) for name in WAYS}


# Results -----------------------------------------------------------------------------------------

class Result:
    def __init__(self, name, command, formula, read, double=False, applies=lambda case: True, of=""):
        self.name, self.command, self.formula, self.read = name, command, formula, read
        self.double = double    # computed in float64 whatever --dtype says
        self.applies = applies  # where the command has a meaning
        self.of = of.split()    # the kinds of traits that it depends on by steps of its own: see SOME


RESULTS = []


def result(name, command, formula, read, **more):
    RESULTS.append(Result(name, command, formula, read, **more))


JSON = ["-f", "json"]
has_mlp = lambda case: case.model.blocks[0].feed_forward is not None
has_head = lambda case: case.model.head is not None
is_causal = lambda case: case.model.causal
last_of = lambda case, *numbers: [[len(case.text[b]) - 1] for b in numbers]
answers = {"answer": 9, "versus": 11}
ANSWERS = ["--answer-id", "9", "--versus-id", "11"]


def places(case, *numbers):
    return [[3, len(case.text[2]) - 1]] * len(numbers)


def query(case):
    return ["--query", f"3,{len(case.text[2]) - 1}", "--per-position"]


result("effects", lambda c: ["effects", *c.ids(0), "--query", "4,11", "--per-position", *JSON],
       lambda ref: runs.effects(ref, [ref.case.text[0]], [[4, 11]]), read.effects, of="norms shape")
result("effects-mean", lambda c: ["effects", *c.ids(0, 2), "--ablate", "mean", *query(c), *JSON],
       lambda ref: runs.effects(ref, [ref.case.text[0], ref.case.text[2]], places(ref.case, 0, 2), "mean"), read.effects)
result("effects-resample", lambda c: ["effects", *c.ids(0, 1), "--ablate", "resample", *query(c), *JSON],
       lambda ref: runs.effects(ref, ref.case.text[:2], places(ref.case, 0, 1), "resample"), read.effects)
result("effects-resample-ends", lambda c: ["effects", *c.ids(0, 2), "--ablate", "resample", "--align", "end", *query(c), *JSON],
       lambda ref: runs.effects(ref, [ref.case.text[0], ref.case.text[2]], places(ref.case, 0, 2), "resample"), read.effects)


def together(case):
    """Two heads of one layer and a later feed-forward (of a model without one, another head)."""
    n = case.layers - 1
    return [(0, "head_out", [0]), (n, "mlp_out", slice(None)) if has_mlp(case) else (n, "head_out", [0])]


def words_of_set(case):
    first, (n, stage, _) = together(case)
    return " + ".join(["layers.0.head_out[0]", "layers.-1." + stage + ("" if stage == "mlp_out" else "[0]")])


result("effects-set-answer",
       lambda c: ["effects", *c.ids(0), "--together", words_of_set(c), *ANSWERS, "--centre", "--query", "6", "--per-position", *JSON],
       lambda ref: runs.effects(ref, [ref.case.text[0]], [[6]], answer=Answer(**answers, centre=True), together=together(ref.case)),
       read.effects, applies=has_head, of="head")
result("effects-spread", lambda c: ["effects", *c.ids(0, 1, 2), "--spread", "--query", "-1", *JSON],
       lambda ref: runs.spread_of_effects(runs.effects(ref, ref.case.text, last_of(ref.case, 0, 1, 2))), read.effects)
result("direct-sums", lambda c: ["effects", *c.ids(0, 2), *ANSWERS, *query(c), *JSON],
       lambda ref: runs.sums_of_direct(ref, [ref.case.text[0], ref.case.text[2]], places(ref.case, 0, 2), Answer(**answers)),
       read.direct_sums, applies=has_head, of="norms head shape embedding")


def sweeping(name, stages, over, at=(11,), pairs=1, **more):
    words = [w for key, x in more.items() for w in (["--raw"] if key == "raw" else [f"--{key}", str(x)] if key == "metric" else
                                                    [f"--{key}-id", str(x)])]

    def command(case):
        here, there = ([0], [1]) if pairs == 1 else ([0, 1], [1, 0])
        return ["effects", *case.ids(*here), *(w.replace("--ids", "--patch-from-ids") for w in case.ids(*there)), "--sweep",
                ",".join(stages(case)), "--over", ",".join(over), "--query", ",".join(map(str, at)), *words, *JSON]

    def formula(ref):
        A, B = ref.case.text[:2]
        return runs.sweep(ref, [(A, B), (B, A)][:pairs], stages(ref.case), over, list(at), **more)
    result("sweep-" + name, command, formula, read.sweep)


sweeping("stream", lambda c: ["resid_pre", "mlp_out"] if has_mlp(c) else ["resid_pre", "output"], ["layer", "query"])
sweeping("heads", lambda c: ["v", "head_out"], ["layer", "head"], (5, 11), raw=True, **answers)
sweeping("keys", lambda c: ["weights"], ["head", "key"], metric="kl", raw=True)
sweeping("pairs", lambda c: ["resid_post"], ["layer", "query"], (4, 7), pairs=2, metric="loss")


result("predict", lambda c: ["predict", *c.ids(0), "--query", "2,11", "--top", "999", *JSON],
       lambda ref: runs.predictions(ref, [ref.case.text[0]], [[2, 11]]), read.predictions, of="head")
result("loss", lambda c: ["predict", *c.ids(0, 2), "--query", "all", "--top", "999", *JSON],
       lambda ref: runs.predictions(ref, [ref.case.text[0], ref.case.text[2]], [range(12), range(8)]), read.predictions)
result("lens", lambda c: ["predict", *c.ids(0), "--each-layer", "--query", "3,10", "--top", "999", *JSON],
       lambda ref: runs.predictions(ref, [ref.case.text[0]], [[3, 10]], each_layer=True), read.predictions)


def halved(value):
    value = value.copy()
    value[0, 2:5] *= 0.5
    return value


def raised(value):
    value = value.copy()
    value[-1, 3] += 0.25
    return value


result("predict-patched",
       lambda c: ["predict", *c.ids(0), "--patch", "layers.0.head_out[0,2:5] *= 0.5", "--patch",
                  f"layers.{c.layers - 1}.resid_pre[*,-1,3] += 0.25", "--top", "999", *JSON],
       lambda ref: runs.patched_predictions(ref, ref.case.text[0], {
           "layers.0.head_out": halved, f"layers.{ref.case.layers - 1}.resid_pre": raised}), read.predictions,
       applies=is_causal)


def of(name, place, kinds, applies=lambda case: True):
    result("of-" + name, lambda c: ["predict", *c.ids(0), "--of", place(c), "--query", "5,11", "--top", "999", *JSON],
           lambda ref: runs.of_stage(ref, ref.case.text[0], place(ref.case), [5, 11]), read.of, applies=applies, of=kinds)


def added_by_attention(case):
    return "attn_add" if case.model.blocks[0].shape in ("sandwich", "inside") else "output"


of("embed", lambda c: "embed", "embedding")
of("stream", lambda c: f"layers.{c.layers - 1}.resid_pre", "head")
of("heads", lambda c: f"layers.{c.layers - 1}.head_result", "norms head")
of("attention", lambda c: "layers.0." + added_by_attention(c), "norms head shape")
of("mlp", lambda c: f"layers.{c.layers - 1}." + runs.stage_of_mlp(c.model.blocks[-1]), "shape", has_mlp)
result("of-vector", lambda c: ["predict", "--of", c.path("vector.npy"), "--top", "999", *JSON],
       lambda ref: runs.of_vector(ref, np.load(ref.case.path("vector.npy"))), read.of, of="norms head")

result("circuits", lambda c: ["circuits", *JSON], weights.circuits, read.circuits, double=True,
       of="norms head attention")
result("circuits-offset", lambda c: ["circuits", "--distance", "3", *JSON], lambda ref: weights.circuits(ref, 3), read.circuits,
       double=True, of="rotation", applies=lambda c: all(b.attention.rope and not b.attention.q_norm for b in c.model.blocks))
result("composition", lambda c: ["circuits", "--composition", "q,k,v", *JSON], weights.compositions, read.compositions, double=True,
       of="attention")
for kind in ("qk", "ov"):
    result("map-" + kind, lambda c, kind=kind: ["map", "-s", kind, "--vocab", "w9,w17,w12", "--layer", "all", "-o", c.path("map.npy")],
           lambda ref, kind=kind: weights.between_tokens(ref, [9, 17, 12], kind), read.array, double=True,
           of={"qk": "embedding attention", "ov": "norms head embedding"}[kind])

for kind in ("weights_mean", "value_norms", "value_norms_sum", "rollout", "received", "divergence"):
    result(kind, lambda c, kind=kind: ["dump", *c.ids(0, 2), "-s", kind, "-o", c.path("flow.npz")],
           lambda ref, kind=kind: maps.flow(ref, [ref.case.text[0], ref.case.text[2]], kind), read.layers(kind),
           of="attention" if kind == "value_norms" else "")


result("measures", lambda c: ["stats", *c.ids(0, 2), "--layer", "all", "--near", "2", *JSON],
       lambda ref: maps.measures(ref, [ref.case.text[0], ref.case.text[2]], 2), read.stats, of="attention")
result("measures-of-queries", lambda c: ["stats", *c.ids(0), "--layer", "all", "--near", "2", "--query", "5:", *JSON],
       lambda ref: maps.measures(ref, [ref.case.text[0]], 2, range(5, 12), batched=False), read.stats)
for by in ("text", "position", "token", "spread"):
    result("measures-by-" + by,
           lambda c, by=by: ["stats", *c.ids(0, 1, 2), "--layer", "all", "--near", "2", "--measures", ",".join(maps.OF_TEXTS),
                             *(["--spread"] if by == "spread" else ["--by", by]), *JSON],
           lambda ref, by=by: maps.measures_over(ref, ref.case.text, by, 2), read.texts(by))
result("top-texts", lambda c: ["stats", *c.ids(0, 1, 2), *c.last_head(), "--top-texts", "2", *JSON],
       lambda ref: maps.top_texts(ref, ref.case.text, *ref.case.last(), 2), read.top_texts)

result("map-minus", lambda c: ["map", *c.ids(0), "--layer", str(c.layers - 1), "--minus-ids", c.ids(1)[1], "-o", c.path("map.npy")],
       lambda ref: maps.difference(ref, *((ids, ref.case.layers - 1, slice(None)) for ids in ref.case.text[:2])), read.array)
for pooling in ("mean", "max"):
    for stage in ("weights", "scaled"):
        result(f"map-pooled-{pooling}-{stage}",
               lambda c, p=pooling, s=stage: ["map", *c.ids(0), *c.last_head(), "-s", s, "--pool", p, "--cells", "5", "--color-scale",
                                              "linear", "--annotate", "-o", c.path("map.svg")],
               lambda ref, p=pooling, s=stage: maps.pooled(ref, ref.case.text[0], *ref.case.last(), s, p, 5), read.pooled)
result("map-mean", lambda c: ["map", *c.ids(0, 2), "--layer", "1", "--batch", "mean", "-o", c.path("map.npy")],
       lambda ref: maps.mean_of_items(ref, [ref.case.text[0], ref.case.text[2]], 1), read.array)
result("explain", lambda c: ["explain", *c.ids(0), "--layer", str(c.layers - 1), "--query", "7", *JSON],
       lambda ref: maps.explanation(ref, ref.case.text[0], ref.case.layers - 1, 7), read.explanation, of="attention")


# Comparing ---------------------------------------------------------------------------------------

class Report:
    def __init__(self):
        self.numbers = self.others = self.refused = self.results = 0
        self.wrong, self.worst = [], (0.0, "")

    def add(self, at, problem):
        self.wrong.append(f"{at}: {problem}")


def program(executable, case, row, precision):
    words = row.command(case)
    words = [words[0], case.folder, *(["--naming", case.naming] if case.naming else []), *words[1:], "--quiet", "--threads", "1"]
    if words[0] != "circuits" and not row.name.startswith(("map-qk", "map-ov")):
        words += ["--dtype", precision]
    done = subprocess.run([executable, *words], capture_output=True, text=True)
    return words, done


def output_of(words, done):
    path = words[words.index("-o") + 1] if "-o" in words else None
    if path is None:
        return json.loads(done.stdout)
    if path.endswith(".svg"):
        with open(path) as file:
            return file.read()
    return np.load(path)


def exact_and_near(row, case):
    """The numbers, and what rounding makes of them; or what the program must say."""
    try:
        return [row.formula(ref) for ref in case.references], None
    except Refused as refused:
        return None, str(refused)


def deviations(exact, near):
    """By how much rounding moves each number: in these runs, and in most of those of its kind; few runs may all be near."""
    own = {key: np.sqrt(np.mean([(one[key] - x) ** 2 for one in near])) for key, x in exact.items()
           if isinstance(x, float) and np.isfinite(x)}
    kind = lambda key: tuple(part for part in key if isinstance(part, str))
    kinds = {}
    for key, x in own.items():
        kinds.setdefault(kind(key), []).append(x)
    usual = {name: np.median(list_) for name, list_ in kinds.items()}
    return {key: x + usual[kind(key)] / 4 for key, x in own.items()}


def compare_numbers(report, at, exact, near, got, scale):
    deviation = deviations(exact, near)
    for key in sorted(exact.keys() ^ got.keys(), key=str)[:3]:
        report.add(at, f"{key} is {'missing' if key in exact else 'too much'}")
    for key in exact.keys() & got.keys():
        want, have = exact[key], got[key]
        if key not in deviation:
            report.others += 1
            if not any(have == x for x in [want, *(one[key] for one in near)]):
                report.add(at, f"{key} is {have}, not {want}")
            continue
        report.numbers += 1
        bound = (1.0 if key[-1] in IN_SINGLE else scale) * SLACK * (deviation[key] + U * abs(want))
        bound += OF_DIFFERENCES
        have, printed = have if isinstance(have, tuple) else (have, 0.0)  # to how much it is told
        bound += 1.001 * printed
        error = abs(have - want) if isinstance(have, float) else np.inf
        if not error <= bound:
            report.add(at, f"{key} is {have}, not {want}: off by {error:.2g}, at most {bound:.2g}")
        elif error > 0 and not printed and error / bound > report.worst[0]:
            report.worst = error / bound, f"{at} {key}"


def check(report, executable, case, row, precision, found, refusal):
    at = f"{case.name} {row.name} {precision}"
    words, done = program(executable, case, row, precision)
    report.results += 1
    before = len(report.wrong)
    if refusal:
        report.refused += 1
        if done.returncode != 2 or refusal not in done.stderr:
            report.add(at, f"exit code {done.returncode}, not refused for “{refusal}”: {done.stderr.strip()[:300]}")
    elif done.returncode != 0:
        report.add(at, f"exit code {done.returncode}: {done.stderr.strip()[:300]}")
    else:
        try:
            got = row.read(output_of(words, done), case)
        except (AssertionError, KeyError, ValueError) as error:
            return report.add(at, f"its output: {error!r}")
        scale = IN_DOUBLE if precision == "f64" or row.double else 1.0
        compare_numbers(report, at, found[0], found[1:], got, scale)
    if len(report.wrong) > before:
        report.wrong[before] += "\n    " + " ".join([executable, *words])


# What CI runs: for each trait of models the results that have steps of their own for it, and each other result of two models.
SOME = {
    "gpt2": "norms head",                         # biases, learned positions, tied
    "gemma2": "norms head shape attention embedding",  # gain 1 + w, four norms, both caps, windows, rows times the root of d
    "nemotron": "norms",                          # layer norms of gain 1 + w
    "cohere-plus": "head shape attention",        # logits times a scale, parallel, norms of each head, neighbours rotated
    "granite": "head embedding",                  # multipliers of rows, scores, residuals and logits
    "glm4": "shape rotation",                     # four norms, half of a head rotated
    "olmo": "norms",                              # norms without weights
    "olmo2": "shape",                             # norms of results alone
    "bert": "shape head",                         # norms of sums, a head with a layer of its own
    "opt-350m": "embedding head",                 # narrower rows, and a narrower head
    "albert": "embedding",                        # narrower rows behind a norm
    "bloom": "attention embedding",               # ALiBi, a norm of the embedding
    "t5": "shape attention",                      # a table of distances, no head
    "bert-relative-key-query": "attention",
    "phi": "head rotation",                       # untied, its head has a bias; parallel with one norm
    "llama-yarn-mscale": "rotation", "phi3-longrope": "rotation", "llama3.1": "rotation", "llama-dynamic": "rotation",
    "llama3.2": "attention",                      # grouped queries, heads wider than d_model / H
    "falcon-7b": "attention",                     # one key/value head
    "gemma3-both-sides": "attention",             # windows to both sides
    "way-sinks": "attention",
    "way-head-scaled-and-capped": "head",         # a bias times the scale
    "way-sandwich": "norms shape",                # layer norms with biases behind results
    "way-sandwich-bias-of-norms": "norms",        # the same, nothing else added
    "way-parallel-batch-norm": "norms",           # a norm that only multiplies and adds
    "tl-fewer-logits": "head",                    # tokens that no logit is of
    "tl-attn-only": "shape",
    "neox-sequential": "shape",
}


def chosen(name, row, index):
    """Whether CI runs a result of a model; `index` of the result."""
    if name not in SOME:
        return False
    if row.of:
        return bool(set(row.of) & set(SOME[name].split()))
    return index % len(SOME) in ((number := list(SOME).index(name)), (number * 2 + 5) % len(SOME))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("--some", action="store_true")
    parser.add_argument("--model", action="append")
    parser.add_argument("--result", action="append")
    parser.add_argument("--precision", choices=["f32", "f64"], action="append")
    parser.add_argument("--keep", help="a folder for the models")
    parser.add_argument("--show", action="store_true", help="how long each model takes")
    args = parser.parse_args()
    report, count = Report(), 0
    with tempfile.TemporaryDirectory() as folder:
        for index, (name, build) in enumerate(MODELS.items()):
            rows = [row for i, row in enumerate(RESULTS) if (not args.result or row.name in args.result) and
                    (not args.some or chosen(name, row, i))]
            if not rows or (args.model and name not in args.model):
                continue
            began, before = time.process_time(), report.numbers
            case = build(os.path.join(args.keep or folder, name))
            count += 1
            for i, row in enumerate(rows):
                if not row.applies(case):
                    continue
                expected = exact_and_near(row, case)
                for precision in args.precision or ([("f32", "f64")[(index + i) % 2]] if args.some else ["f32", "f64"]):
                    check(report, os.path.abspath(args.program), case, row, precision, *expected)
            if args.show:
                print(f"{name}: {report.numbers - before} numbers, {time.process_time() - began:.2f} s", flush=True)
    for line in report.wrong:
        print(line)
    print(f"{report.numbers} numbers and {report.others} others of {report.results} results of {count} models, "
          f"{report.refused} refused by name, {len(report.wrong)} wrong; the nearest to its bound: "
          f"{report.worst[0]:.2f} of it, {report.worst[1]}")
    return 1 if report.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
