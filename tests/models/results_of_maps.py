"""What is made of maps: flow over heads and layers, measures of heads, pooled and subtracted maps, an explanation.

Written from docs/stats.md, docs/maps.md and docs/maths.md. Each function takes a Reference (rounding.py) and gives {key:
number, or what is no number}.
"""
import functools

import numpy as np

from forward import Attention, visible

SEPARATORS = (5, 7)  # the tokens "," and "." of the tokenizer that is written beside the models


def numbers(array, *key):
    return {(*key, *index): float(x) for index, x in np.ndenumerate(array)}


# Flow --------------------------------------------------------------------------------------------

def values_of(ref, ids, n):
    """v_s W_o[h]: H, S, d_model."""
    a = ref.model.blocks[n].attention
    v = np.repeat(ref.stage(ids, n, "v"), a.num_heads // a.num_kv_heads, 0)
    return v @ a.o.weight.reshape(a.num_heads, -1, a.o.weight.shape[-1])


def divergence(p, q):
    """Of rows that sum to 1, in bits."""
    def entropy(x):
        return -(x * np.log2(np.where(x > 0, x, 1))).sum(-1)
    return entropy((p + q) / 2) - entropy(p) / 2 - entropy(q) / 2


def flow(ref, texts, kind):
    found = {}
    for b, ids in enumerate(texts):
        rolled = np.eye(len(ids))
        for n in range(len(ref.model.blocks)):
            w = ref.stage(ids, n, "weights")
            if kind == "weights_mean":
                value = w.mean(0)
            elif kind == "value_norms":
                value = w * np.linalg.norm(values_of(ref, ids, n), axis=-1)[:, None]
            elif kind == "value_norms_sum":
                value = np.linalg.norm(np.einsum("hts,hsd->tsd", w, values_of(ref, ids, n)), axis=-1)
            elif kind == "rollout":
                step = w.mean(0) + np.eye(len(ids))
                value = rolled = step / step.sum(-1, keepdims=True) @ rolled
            elif kind == "received":
                attends = w.sum(-1) > 0
                value = np.stack([of_head[rows].mean(0) for of_head, rows in zip(w, attends)])
            else:
                p = w / w.sum(-1, keepdims=True)
                value = np.array([[divergence(p[a], p[c]).mean() for c in range(len(p))] for a in range(len(p))])
            found |= numbers(value, b, n)
    return found


# Measures ----------------------------------------------------------------------------------------

PLACES = ("first", "self", "previous", "next", "last", "separator", "window", "induction", "duplicate")


class Rows:
    """One head's rows of some texts, and what may be seen in each."""

    def __init__(self, ref, texts, n, h, queries=None):
        self.ref, self.n, self.h, self.attention = ref, n, h, ref.model.blocks[n].attention
        self.rows = []  # text's number, text, query, weights, what it sees
        for b, ids in enumerate(texts):
            sees, w = seen(self.attention, ids), ref.stage(ids, n, "weights")[h]
            self.rows += [(b, ids, t, w[t], sees[t]) for t in (range(len(ids)) if queries is None else queries)]
        self.attending = [row for row in self.rows if row[4].any()]
        self.choosing = [row for row in self.attending if row[4].sum() > 1]

    def mean(self, of, rows=None):
        return mean_of([of(*row) for row in (self.choosing if rows is None else rows)])


def mean_of(values):
    known = [v for v in values if v is not None]
    return float(sum(known) / len(known)) if known else None


def seen(attention, ids):
    """T, T: true where the query of the row may see the key of the column."""
    return seen_by(attention.causal, attention.window, attention.reach, len(ids))


@functools.cache
def seen_by(causal, window, reach, T):
    bare = Attention(None, None, None, None, 1, 1, 1.0, causal, window, reach)
    return visible(bare, T, None)[0]


def keys_of(place, attention, ids, t, window):
    """The keys whose weight is counted, and their share of equal weights; None where the row has none such."""
    return keys_of_row(place, attention.causal, attention.window, attention.reach, tuple(ids), t, window)


@functools.cache
def keys_of_row(place, causal, slides, reach, ids, t, window):
    all_sees = seen_by(causal, slides, reach, len(ids))
    keys = counted(place, all_sees, np.array(ids), t, window)
    return None if keys is None else (keys, (keys & all_sees[t]).sum() / all_sees[t].sum())


def counted(place, all_sees, ids, t, window):
    sees, T, j = all_sees[t], len(ids), np.arange(len(ids))
    if place == "first":
        return j == 0
    if place == "window":
        return abs(j - t) <= window
    if place == "self":
        return j == t
    if place == "previous":
        return j == t - 1 if t > 0 else None
    if place == "next":
        return j == t + 1 if t + 1 < T and sees[t + 1] else None
    if place == "last":
        end = max(np.flatnonzero(all_sees[0] | all_sees[-1]))
        return j == end if sees[end] and t != end else None
    if place == "separator":
        keys = np.isin(ids, SEPARATORS) & (j > 0) & sees
    elif place == "induction":
        keys = np.concatenate([[False], ids[:-1] == ids[t]]) & (j < t)
    else:
        keys = (ids == ids[t]) & (0 < j) & (j < t)
    return keys if keys.any() else None


def correlation(rows, equal):
    """Pearson's, of query and key, each pair weighted by its weight; None where one of them does not vary."""
    t, j, w = [], [], []
    for _, ids, query, weights, sees in rows.choosing:
        t += [query] * len(ids)
        j += list(range(len(ids)))
        w += list(sees / sees.sum() if equal else weights)
    t, j, w = (np.array(x, float) for x in (t, j, w))
    if not len(w):
        return None
    w = w / w.sum()
    of_t, of_j = t - (t * w).sum(), j - (j * w).sum()
    tt, jj = (w * of_t * of_t).sum(), (w * of_j * of_j).sum()
    if tt < 1e-11 * (w * t * t).sum() or jj < 1e-11 * (w * j * j).sum():  # what rounding leaves of 0
        return None
    t, j = of_t, of_j
    return float((w * t * j).sum() / np.sqrt(tt * jj))


def entropy(weights):
    return float(-(weights * np.log(np.where(weights > 0, weights, 1))).sum())


def measures_of_rows(rows, batched, window):
    m, choosing, T = {}, rows.choosing, np.arange
    m["masked_rows"] = len(rows.rows) - len(rows.attending)
    m["rows"] = len(choosing)
    if rows.attending:
        m["row_sum_error"] = float(max(abs(w.sum() - 1) for *_, w, _ in rows.attending))
    taken = (lambda w: 1 - w.sum()) if rows.attention.sinks is not None else lambda w: 0.0
    of_rows = [(entropy(w), np.log(s.sum()), w.max(), np.minimum(w, 1 / s.sum())[s].sum(), (w * abs(T(len(i)) - t)).sum(),
                w[0] + taken(w)) for b, i, t, w, s in choosing]
    mean = lambda of: mean_of([of(*row) for row in of_rows])
    m["entropy"] = mean(lambda e, *_: e)
    m["entropy_share"] = mean(lambda e, most, *_: e / most)
    m["effective_keys"] = mean(lambda e, *_: np.exp(e))
    m["one_key_rows"] = mean(lambda e, most, largest, *_: float(largest > 0.9))
    m["confidence"] = mean(lambda e, most, largest, *_: largest)
    m["uniformity"] = mean(lambda e, most, largest, common, *_: common)
    m["distance"] = mean(lambda e, most, largest, common, distance, _: distance)
    m["sink_share"] = mean(lambda *of_row: of_row[-1])
    if choosing:
        b, _, t, w, _ = max(choosing, key=lambda row: row[3].max())
        m |= {"max": float(w.max()), "max_query": t, "max_key": int(w.argmax())} | ({"max_batch": b} if batched else {})
    for place in PLACES:
        found = [(w, keys_of(place, rows.attention, i, t, window)) for b, i, t, w, s in choosing]
        found = [(w[keys[0]].sum(), keys[1]) for w, keys in found if keys is not None]
        m[place], equal = mean_of([weight for weight, _ in found]), mean_of([share for _, share in found])
        m[place + "_above"] = None if m[place] is None else m[place] - equal
        if place == "window":
            m["window_keys"] = equal
        elif place != "first":
            m[place + "_rows"] = len(found) or None
    r, equal = correlation(rows, False), correlation(rows, True)
    m |= {"diagonal": r, "diagonal_above": None if r is None or equal is None else r - equal}
    return m


def measures_of_results(ref, rows):
    """What the head adds to the output."""
    result = lambda i, t: ref.stage(i, rows.n, "head_result")[rows.h, t]
    bias = rows.attention.o.bias
    y = lambda i, t: ref.stage(i, rows.n, "output")[t] - bias
    along = sum(result(i, t) @ y(i, t) for _, i, t, _, _ in rows.attending)
    squares = sum(y(i, t) @ y(i, t) for _, i, t, _, _ in rows.attending)
    return {"result_norm": rows.mean(lambda b, i, t, w, s: np.linalg.norm(result(i, t)), rows.attending),
            "result_share": float(along / squares) if squares else None}


def measures_of_logits(ref, rows):
    largest, sums = [], []
    for _, ids, t, _, sees in rows.attending:
        logits = ref.stage(ids, rows.n, "masked")[rows.h, t][sees]
        if rows.attention.sinks is not None:
            logits = np.append(logits, rows.attention.sinks[rows.h])
        largest.append(logits.max())
        sums.append(logits.max() + np.log(np.exp(logits - logits.max()).sum()))
    return {"largest_logit": float(max(largest)), "overflow_f32": bool(max(sums) > 88.72283905206835),
            "overflow_f16": bool(max(sums) > np.log(65504))}


def measures_of_projections(ref, n, h):
    a, m = ref.model.blocks[n].attention, {}
    block = lambda W, i, count: W.reshape(W.shape[0], count, -1)[:, i]
    kv = h * a.num_kv_heads // a.num_heads
    for letter, W in (("q", block(a.q.weight, h, a.num_heads)), ("k", block(a.k.weight, kv, a.num_kv_heads)),
                      ("v", block(a.v.weight, kv, a.num_kv_heads)), ("o", block(a.o.weight.T, h, a.num_heads))):
        W = ref.rounding(W, True)
        sigma = np.linalg.svd(W, compute_uv=False)
        m |= {f"rank_{letter}": int((sigma > sigma[0] * 2.0 ** -23 * max(W.shape)).sum()), f"cond_{letter}": float(sigma[0] / sigma[-1]),
              f"stiefel_{letter}": float(np.linalg.norm(W.T @ W - np.eye(W.shape[1])))}
    return m


def similarities(of_heads):
    """The nearest head and its cosine, of texts too short for maps to be averaged down."""
    maps = [np.concatenate([w if s.sum() > 1 else 0 * w for *_, w, s in rows.rows]) for rows in of_heads]
    found = []
    for h, own in enumerate(maps):
        cosines = [own @ other / np.linalg.norm(own) / np.linalg.norm(other) if g != h else -1 for g, other in enumerate(maps)]
        nearest = int(np.argmax(cosines))
        known = len(maps) > 1 and np.linalg.norm(own) > 0
        found.append({"nearest_head": nearest, "similarity": float(cosines[nearest])} if known else {})
    return found


def kind(m):
    """docs/stats.md, "Kinds"."""
    if not m["rows"]:
        return None if m["rows"] is None else ""
    most = lambda name: m[name] is not None and m[name] >= 0.5 and m[name + "_above"] >= 0.25
    diagonal = m["diagonal"] is not None and m["diagonal"] >= 0.95
    along = m["diagonal_above"] is None or m["diagonal_above"] >= 0.25
    near = m["window"] is not None and m["window"] >= 0.8
    equal = lambda name: m[name] - m[name + "_above"]
    # Most of what separators get is the last key's, which is one of several.
    last = most("last") and (not most("separator") or (
        equal("separator") >= 1.5 * equal("last") and m["last"] >= 0.8 * m["separator"]))
    checks = [("previous-token", most("previous"), m["previous_rows"]), ("next-token", most("next"), m["next_rows"]),
              ("last-token", last, m["last_rows"]),
              ("separator", most("separator"), m["separator_rows"]), ("induction", most("induction"), m["induction_rows"]),
              ("duplicate-token", most("duplicate"), m["duplicate_rows"]), ("self", most("self"), m["self_rows"]),
              ("first-token", most("first"), m["rows"]), ("uniform", m["uniformity"] >= 0.9, m["rows"]),
              ("local", near and (m["window_keys"] <= m["window"] / 2 or (diagonal and along)), m["rows"]),
              ("diagonal", diagonal and along, m["rows"]), ("one-key", m["one_key_rows"] >= 0.8, m["rows"])]
    if m["rows"] < 6:
        return "too short"
    few = False
    for name, holds, behind in checks:
        if holds and (behind or 0) >= 4:
            return name
        few = few or (holds and m["rows"] < 32)
    return "too short" if few else "mixed"


def measures(ref, texts, window, queries=None, batched=True):
    """(layer, head, column) -> number, of all texts together."""
    found = {}
    for n, block in enumerate(ref.model.blocks):
        of_heads = [Rows(ref, texts, n, h, queries) for h in range(block.attention.num_heads)]
        for h, (rows, similar) in enumerate(zip(of_heads, similarities(of_heads))):
            m = {"nearest_head": None, "similarity": None, "max": None, "max_query": None, "max_key": None, "max_batch": None}
            m |= measures_of_rows(rows, batched, window) | measures_of_results(ref, rows) | similar
            m |= measures_of_logits(ref, rows) | measures_of_projections(ref, n, h)
            found |= {(n, h, name): x for name, x in m.items()} | {(n, h, "kind"): kind(m)}
    return found


OF_TEXTS = ("entropy", "entropy_share", "first", "previous", "distance", "window", "induction", "uniformity", "result_norm",
            "result_share", "diagonal", "largest_logit")


def measured_alone(ref, texts, n, h, window, queries=None):
    rows = Rows(ref, texts, n, h, queries)
    return measures_of_rows(rows, False, window) | measures_of_results(ref, rows) | measures_of_logits(ref, rows)


def measures_over(ref, texts, by, window):
    """Rows of many texts: of each text, position or token, or of all with their spread."""
    found = {}
    for n, block in enumerate(ref.model.blocks):
        for h in range(block.attention.num_heads):
            each = lambda b, queries=None: measured_alone(ref, [texts[b]], n, h, window, queries)
            if by == "spread":
                groups = {None: [each(b) for b in range(len(texts))]}
            elif by == "text":
                groups = {b: [each(b)] for b in range(len(texts))}
            else:
                groups = {}
                for b, ids in enumerate(texts):
                    for t in range(len(ids)):
                        groups.setdefault(t if by == "position" else ids[t], []).append(each(b, [t]))
            for of, list_ in groups.items():
                for name in OF_TEXTS:
                    values = [m.get(name) for m in list_]
                    found[n, h, of, name] = mean_of(values)
                    if by == "spread":
                        known = [v for v in values if v is not None]
                        found[n, h, of, name + "_sd"] = float(np.std(known, ddof=1)) if len(known) > 1 else None
    return found


def top_texts(ref, texts, n, h, count):
    """The texts with the longest vectors that the head adds, each with its longest."""
    norms = [np.linalg.norm(ref.stage(ids, n, "head_result")[h], axis=-1) for ids in texts]
    order = sorted(range(len(texts)), key=lambda b: -norms[b].max())[:count]
    return {(i, what): x for i, b in enumerate(order)
            for what, x in (("norm", float(norms[b].max())), ("text", b), ("position", int(norms[b].argmax())))}


# Maps --------------------------------------------------------------------------------------------

def difference(ref, a, b):
    """Cell by cell of two lists of (text, layer, heads)."""
    one, other = (ref.stage(ids, n, "weights")[heads] for ids, n, heads in (a, b))
    return numbers(one - other)


def mean_of_items(ref, texts, n):
    """Of the items that have a cell."""
    T = max(len(ids) for ids in texts)
    sums, counts = 0, np.zeros((T, T))
    for ids in texts:
        w = ref.stage(ids, n, "weights")
        more = T - len(ids)
        sums = sums + np.pad(w, ((0, 0), (0, more), (0, more)))
        counts[:len(ids), :len(ids)] += 1
    return numbers(sums / counts)


def pooled(ref, ids, n, h, stage, pooling, cells):
    """(row, column) of cells: the mean or the largest of the numbers that are not masked; none where all are."""
    array, sees = ref.stage(ids, n, stage)[h], seen(ref.model.blocks[n].attention, ids)
    if stage != "weights":
        sees = np.ones_like(sees)
    step, found = -(-len(ids) // cells), {}
    for r, first in enumerate(range(0, len(ids), step)):
        for c, left in enumerate(range(0, len(ids), step)):
            part, of_part = (x[first:first + step, left:left + step] for x in (array, sees))
            if of_part.any():
                found[r, c] = float(part[of_part].mean() if pooling == "mean" else part[of_part].max())
    return found


# An explanation ------------------------------------------------------------------------------------

def explanation(ref, ids, n, t):
    block, stage = ref.model.blocks[n], lambda name: ref.stage(ids, n, name)
    a, found = block.attention, {}
    y = stage("output")[t]
    for name in ("x", "concat", "output"):
        found |= numbers(stage(name)[t], name)
    share = lambda r: float(r @ y / (y @ y))
    if np.ndim(a.o.bias):
        found |= numbers(a.o.bias, "b_o") | {("b_o_share",): share(a.o.bias)}
    for h in range(a.num_heads):
        for name in ("q", "q_norm", "q_rope", "head_out", "head_result"):
            if f"layers.{n}.{name}" in ref.run(ids):
                found |= numbers(stage(name)[h, t], h, name)
        result = stage("head_result")[h, t]
        found |= {(h, "relative_norm"): float(np.linalg.norm(result) / np.linalg.norm(y)), (h, "share"): share(result)}
        logits, sees = stage("masked")[h, t], seen(a, ids)[t]
        sink = [] if a.sinks is None else [a.sinks[h]]
        top = max([*logits[sees], *sink])
        exp = np.exp(logits - top)
        found |= numbers(exp, h, "exp") | numbers(np.where(sees, logits - top, -np.inf), h, "shifted")
        found |= {(h, "row_max"): float(top), (h, "row_sum"): float(exp.sum() + np.exp(np.array(sink) - top).sum())}
        found[h, "logsumexp"] = float(top + np.log(found[h, "row_sum"]))
        if sink:
            e = float(np.exp(sink[0] - top))
            found |= {(h, "sink", "logit"): float(sink[0]), (h, "sink", "exp"): e, (h, "sink", "weight"): e / found[h, "row_sum"]}
        for name, theirs in (("scores", "score"), ("scaled", "scaled"), ("capped", "capped"), ("biased", "biased"),
                             ("masked", "logit"), ("weights", "weight")):
            if f"layers.{n}.{name}" in ref.run(ids):
                found |= numbers(stage(name)[h, t], h, theirs)
    return found
