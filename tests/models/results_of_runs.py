"""What is made of runs: predictions, effects of parts that are taken out, direct effects, activation patching.

Written from docs/models.md. Each function takes a Reference (rounding.py) and gives {key: number, or what is no number}.
"""
import numpy as np

from forward import Norm, identity


class Refused(Exception):
    """The program must refuse, in a message that has this."""


def log_p(logits):
    shifted = logits - logits.max(-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))


def logits_of(ref, stream):
    """What a stream's rows predict: the last norm by their own statistics, the head."""
    model = ref.model
    x = ref.rounding(model.final(stream)) if model.final else stream
    logits = model.head.decoder(ref.rounding(model.head.transform(x)))
    if model.head.softcap:
        logits = model.head.softcap * np.tanh(logits / model.head.softcap)
    return ref.rounding(logits)


def require_head(ref):
    if not ref.model.head:
        raise Refused("saved alone")


def last_stream(ref, ids):
    return ref.stage(ids, len(ref.model.blocks) - 1, "resid_post")


# Predictions -----------------------------------------------------------------------------------

def candidates(logits, *place):
    p = log_p(logits)
    return {(*place, "next", i, what): float(x) for i in range(len(logits))
            for what, x in (("logit", logits[i]), ("p", np.exp(p[i])))}


def foretells(ref, ids, t, vocabulary):
    """Whether the token that follows has a probability: not at the end, nor where nothing, or not that, is foretold."""
    return ref.model.causal and t + 1 < len(ids) and ids[t + 1] < vocabulary


def came(ref, logits, ids, t, *place):
    """Of the token that follows: its probability, rank and loss."""
    if not foretells(ref, ids, t, logits.shape[-1]):
        return {}
    of = logits[t]
    loss = -log_p(of)[ids[t + 1]]
    return {(*place, "came", "rank"): 1 + int((of > of[ids[t + 1]]).sum()), (*place, "came", "p"): float(np.exp(-loss)),
            (*place, "came", "loss"): float(loss)}


def mean_loss(found):
    losses = [x for key, x in found.items() if key[-1] == "loss"]
    if losses:
        return {("loss",): float(np.mean(losses)), ("perplexity",): float(np.exp(np.mean(losses)))}
    return {("loss",): None, ("perplexity",): None}


def predictions(ref, texts, places, each_layer=False):
    """places: of each text, its positions."""
    require_head(ref)
    found, layers = {}, range(len(ref.model.blocks)) if each_layer else [None]
    for b, (ids, positions) in enumerate(zip(texts, places)):
        for n in layers:
            logits = ref.run(ids)["logits"] if n is None else logits_of(ref, ref.stage(ids, n, "resid_post"))
            for t in positions:
                found |= candidates(logits[t], b, t, n) | came(ref, logits, ids, t, b, t, n)
    # The loss is that of the last layer's stream.
    last = {key: x for key, x in found.items() if key[2] in (None, len(ref.model.blocks) - 1)}
    return found | mean_loss(last)


def patched_predictions(ref, ids, edits):
    require_head(ref)
    logits = ref.each(ids, [edits])["logits"][0]
    return candidates(logits[-1], 0, len(ids) - 1, None) | mean_loss({})


# What a part adds to logits ----------------------------------------------------------------------

def is_linear_head(model):
    return model.head is not None and model.head.transform is identity


def through(norm, at, part):
    """A part of a row, through a norm by the statistics of the row `at`: without its bias."""
    if norm is None:
        return part
    if not isinstance(norm, Norm):
        return norm(part) - norm(np.zeros(part.shape))  # the identity, or numbers that multiply and others that are added
    centred, row = part, at
    if norm.kind == "layer":
        centred, row = part - part.mean(-1, keepdims=True), at - at.mean(-1, keepdims=True)
    return centred / np.sqrt((row * row).mean(-1, keepdims=True) + norm.eps) * norm.weight


def behind_attention(block):
    return {"sandwich": block.n2, "inside": block.n1}.get(block.shape)


def stage_of_mlp(block):
    return "mlp_add" if block.shape in ("sandwich", "inside") else "mlp_out"


def of_stage(ref, ids, place, positions):
    """predict --of a stage of the stream, or of a part of it."""
    require_head(ref)
    model, found = ref.model, {}
    n, name = (None, "embed") if place == "embed" else (int(place.split(".")[1]), place.split(".")[2])
    if name not in ("head_result", "output", "attn_add", "mlp_out", "mlp_add"):
        stage = ref.run(ids)[place]
        logits = logits_of(ref, stage)
        return {(t, None, i): float(logits[t][i]) for t in positions for i in range(logits.shape[-1])}
    block = model.blocks[n]
    if block.shape == "post":
        raise Refused("the block normalises the sum")
    if not is_linear_head(model):
        raise Refused("linear heads")
    if behind_attention(block) not in (None, identity) and name in ("head_result", "output", "mlp_out"):
        raise Refused("a norm between")
    stage, last = ref.stage(ids, n, name), last_stream(ref, ids)
    rows = {h: stage[h] for h in range(len(stage))} if name == "head_result" else {None: stage}
    for t in positions:
        for h, row in rows.items():
            logits = ref.rounding(through(model.final, last[t], row[t]) @ model.head.decoder.weight)
            found |= {(t, h, i): float(x) for i, x in enumerate(logits)}
    return found


def of_vector(ref, vector):
    """Centring and gain alone."""
    require_head(ref)
    if not is_linear_head(ref.model):
        raise Refused("linear heads")
    final, x = ref.model.final, vector
    if isinstance(final, Norm):
        x = (x - x.mean() if final.kind == "layer" else x) * final.weight
    logits = ref.rounding(x @ ref.model.head.decoder.weight)
    return {(None, None, i): float(z) for i, z in enumerate(logits)}


# Effects -----------------------------------------------------------------------------------------

class Answer:
    """The logit that is followed."""

    def __init__(self, answer=None, versus=None, centre=False):
        self.answer, self.versus, self.centre = answer, versus, centre

    def of(self, clean):
        return int(np.argmax(clean)) if self.answer is None else self.answer

    def __call__(self, columns, clean):
        """Of a list with something for each token."""
        value = columns[..., self.of(clean)]
        if self.versus is not None:
            value = value - columns[..., self.versus]
        return value - columns.mean(-1) if self.centre else value


def direct_effects(ref, ids, t, answer):
    """(part, layer, head) -> what it adds to the logit, before any cap; none where the parts do not add up."""
    model = ref.model
    if not is_linear_head(model) or any(b.shape == "post" for b in model.blocks):
        return None
    clean, last = ref.run(ids)["logits"][t], last_stream(ref, ids)[t]
    W = model.head.decoder.weight
    u = answer(W, clean)
    direct = lambda row: float(through(model.final, last, ref.rounding(row)) @ u)
    parts = {("embed", None, None): direct(ref.stage(ids, 0, "resid_pre")[t])}
    for n, block in enumerate(model.blocks):
        output = ref.stage(ids, n, "output")[t]
        added = lambda row: direct(through(behind_attention(block), output, row))
        heads = [added(row[t]) for row in ref.stage(ids, n, "head_result")]
        parts |= {("head", n, h): x for h, x in enumerate(heads)} | {("attention", n, None): sum(heads)}
        bias, of_norm = block.attention.o.bias, getattr(behind_attention(block), "bias", 0.0)
        if np.ndim(bias) or np.ndim(of_norm):
            whole = np.broadcast_to(bias, output.shape)
            parts["attention_bias", n, None] = direct(through(behind_attention(block), output, whole) + of_norm)
        if block.feed_forward:
            parts["mlp", n, None] = direct(ref.stage(ids, n, stage_of_mlp(block))[t])
    bias = np.broadcast_to(model.head.decoder.bias, W.shape[1:])
    of_norm = np.broadcast_to(getattr(model.final, "bias", 0.0), last.shape)
    return parts | {("final_bias", None, None): float(of_norm @ u), ("head_bias", None, None): float(answer(bias, clean))}


def uncapped(ref, ids, t, answer):
    """The logit that direct effects add up to."""
    model, last = ref.model, last_stream(ref, ids)[t]
    x = model.final(last) if model.final else last
    return float(answer(ref.rounding(model.head.decoder(ref.rounding(x))), ref.run(ids)["logits"][t]))


def mean_of_texts(ref, texts, n, stage):
    """Over all positions of all texts."""
    every = np.concatenate([ref.stage(ids, n, stage) for ids in texts], -2)
    return every.mean(-2, keepdims=True)


def replacement(ref, texts, b, ablation, n, stage):
    """What a part is replaced by, of the shape of the stage."""
    own = ref.stage(texts[b], n, stage)
    if ablation == "zero":
        return np.zeros(own.shape)
    if ablation == "mean":
        return np.broadcast_to(mean_of_texts(ref, texts, n, stage), own.shape)
    other = ref.stage(texts[(b + 1) % len(texts)], n, stage)
    count = min(own.shape[-2], other.shape[-2])  # positions are counted from the ends
    return np.concatenate([own[..., :own.shape[-2] - count, :], other[..., other.shape[-2] - count:, :]], -2)


def with_heads(heads, to):
    def change(value):
        value = value.copy()
        value[heads] = to[heads]
        return value
    return change


def ablations(ref, texts, b, ablation, places=()):
    """(part, layer, head) -> the edits of a text's run. places: what is taken out together, (layer, stage, heads)."""
    parts = {}
    for n, block in enumerate(ref.model.blocks):
        to = replacement(ref, texts, b, ablation, n, "head_out")
        name = f"layers.{n}.head_out"
        for h in range(block.attention.num_heads):
            parts["head", n, h] = {name: with_heads([h], to)}
        parts["attention", n, None] = {name: with_heads(slice(None), to)}
        if block.feed_forward:
            out = replacement(ref, texts, b, ablation, n, "mlp_out")
            parts["mlp", n, None] = {f"layers.{n}.mlp_out": lambda value, out=out: out}
    if places:
        parts["set", None, None] = {}
        for n, stage, heads in places:
            to = replacement(ref, texts, b, ablation, n, stage)
            parts["set", None, None][f"layers.{n}.{stage}"] = with_heads(heads, to)
    return parts


COLUMNS = ("kl", "loss_change", "logit_change", "direct", "change")


def compared(ref, ids, t, clean, patched, answer):
    """A run's prediction beside another's."""
    if not ref.model.head:
        end = "final" if ref.model.final else f"layers.{len(ref.model.blocks) - 1}.resid_post"
        a, b = clean[end][t], patched[end][t]
        return {"change": float(np.linalg.norm(b - a) / np.linalg.norm(a))}
    a, b = clean["logits"][t], patched["logits"][t]
    p, q = log_p(a), log_p(b)
    found = {"kl": float((np.exp(p) * (p - q)).sum()), "logit_change": float(answer(b, a) - answer(a, a))}
    if foretells(ref, ids, t, len(a)):
        found["loss_change"] = float(p[ids[t + 1]] - q[ids[t + 1]])
    return found


def effects(ref, texts, places, ablation="zero", answer=Answer(), together=()):
    """(part, layer, head, text, position, column) -> number, or None where it does not apply."""
    found = {}
    for b, (ids, positions) in enumerate(zip(texts, places)):
        clean, parts = ref.run(ids), ablations(ref, texts, b, ablation, together)
        runs = ref.each(ids, list(parts.values()))
        for t in positions:
            direct = (direct_effects(ref, ids, t, answer) if ref.model.head else None) or {}
            for part in list(parts) + [p for p in direct if p not in parts]:
                values = {"direct": direct[part]} if part in direct else {}
                if part in parts:
                    i = list(parts).index(part)
                    values |= compared(ref, ids, t, clean, {n: v[i] for n, v in runs.items()}, answer)
                found |= {(*part, b, t, column): values.get(column) for column in COLUMNS}
    return found


def spread_of_effects(found):
    """Means over predictions, and standard deviations of at least two."""
    lists = {}
    for (part, layer, head, b, t, column), value in found.items():
        lists.setdefault((part, layer, head, column), []).extend([] if value is None else [value])
    means = {key: float(np.mean(x)) if x else None for key, x in lists.items()}
    return means | {(*key[:3], key[3] + "_sd"): float(np.std(x, ddof=1)) if len(x) > 1 else None for key, x in lists.items()}


def sums_of_direct(ref, texts, places, answer):
    """What direct effects must add up to."""
    if not ref.model.head or direct_effects(ref, texts[0], places[0][0], answer) is None:
        return {}
    return {(b, t): uncapped(ref, ids, t, answer) for b, ids in enumerate(texts) for t in places[b]}


# Activation patching -----------------------------------------------------------------------------

def index_of(array, over, h, t, j):
    """Which part of a stage a point is of; arrays of heads have their axis in front."""
    index = [slice(None)] * array.ndim
    if "head" in over:
        index[0] = h
    if "query" in over:
        index[-2] = t
    if "key" in over:
        index[-1] = j
    return tuple(index)


def sweep(ref, pairs, stages, over, places, metric="logit", raw=False, answer=None, versus=None):
    """(stage, layer, head, query, key) -> the mean over pairs, and ("this",), ("other",)."""
    require_head(ref)
    model, of_pairs = ref.model, []
    for here, there in pairs:
        clean, other = ref.run(here), ref.run(there)
        targets = [(np.argmax(other["logits"][t]) if answer is None else answer,
                    np.argmax(clean["logits"][t]) if versus is None else versus) for t in places]

        def measured(logits):
            if metric == "logit":
                return np.mean([logits[t][a] - logits[t][v] for t, (a, v) in zip(places, targets)])
            if metric == "loss":
                return np.mean([-log_p(logits[t])[here[t + 1]] for t in places if foretells(ref, here, t, logits.shape[-1])])
            p = [log_p(clean["logits"][t]) for t in places]
            return np.mean([(np.exp(a) * (a - log_p(logits[t]))).sum() for a, t in zip(p, places)])

        if metric == "logit" and any(a == v for a, v in targets):
            raise Refused("both runs predict")
        if metric == "loss" and not any(foretells(ref, here, t, clean["logits"].shape[-1]) for t in places):
            raise Refused("no chosen position has a next token")
        points, edits = [], []
        for stage in stages:
            for n in range(len(model.blocks)) if "layer" in over else [None]:
                layers = range(len(model.blocks)) if n is None else [n]
                shape = clean[f"layers.{layers[0]}.{stage}"].shape
                for h in range(shape[0]) if "head" in over else [None]:
                    for t in range(shape[-2]) if "query" in over else [None]:
                        for j in range(shape[-1]) if "key" in over else [None]:
                            points.append((stage, n, h, t, j))
                            edits.append({f"layers.{m}.{stage}": taken(other[f"layers.{m}.{stage}"], over, h, t, j)
                                          for m in layers})
        runs = ref.each(here, edits)["logits"]
        this, that = measured(clean["logits"]), measured(other["logits"])
        values = {point: measured(z) if raw else (measured(z) - this) / (that - this) for point, z in zip(points, runs)}
        of_pairs.append(values | {("this",): this, ("other",): that})
    found = {key: float(np.mean([one[key] for one in of_pairs])) for key in of_pairs[0]}
    for key in of_pairs[0] if len(pairs) > 1 else []:
        if len(key) > 1:
            found[*key, "spread"] = float(np.std([one[key] for one in of_pairs], ddof=1))
    return found


def taken(other, over, h, t, j):
    def change(value):
        value = value.copy()
        index = index_of(value, over, h, t, j)
        value[index] = other[index]
        return value
    return change
