"""What the program's outputs say, as {key: number, or what is no number}: the keys of results_of_*.py.

Each function takes what JSON, NumPy or a picture's text gave, and the Case (results.py) that it is of.
"""
import re

import numpy as np

import results_of_maps as maps
import results_of_runs as runs
import results_of_weights as weights


def value(x):
    """As the program writes numbers that are not finite."""
    return {"Infinity": np.inf, "-Infinity": -np.inf, "NaN": np.nan}.get(x, x) if isinstance(x, str) else x


def real(x):
    return None if x is None else float(value(x))


def effects(out, case):
    found = {}
    for row in out:
        key = (row["part"], row["layer"], row["head"], *((row["batch"], row["position"]) if "batch" in row else ()))
        found |= {(*key, column): real(x) for column, x in row.items()
                  if column.removesuffix("_sd") in runs.COLUMNS}
    return found


def direct_sums(out, case):
    sums = {}
    for row in out:
        if row["direct"] is not None and row["part"] != "attention":  # the heads' sum
            at = row["batch"], row["position"]
            sums[at] = sums.get(at, 0.0) + row["direct"]
    return sums


def sweep(out, case):
    found = {("this",): real(out["this"]), ("other",): real(out["other"])}
    for p in out["points"]:
        key = p["stage"], p["layer"], p["head"], p["query"], p["key"]
        found[key] = float(p["value"])
        if p["spread"] is not None:
            found[*key, "spread"] = float(p["spread"])
    return found


def predictions(out, case):
    found = {("loss",): real(out["loss"]), ("perplexity",): real(out["perplexity"])}
    for p in out["predictions"]:
        at = p.get("batch") or 0, p["position"], p.get("layer")
        listed = [one["logit"] for one in p["next"]]
        assert listed == sorted(listed, reverse=True), "candidates are not in order"
        for one in p["next"]:
            found |= {(*at, "next", one["id"], "logit"): real(one["logit"]), (*at, "next", one["id"], "p"): real(one["probability"])}
        if p.get("came"):
            came = p["came"]
            found |= {(*at, "came", "rank"): came["rank"], (*at, "came", "p"): real(came["probability"]),
                      (*at, "came", "loss"): real(came["loss"])}
    return found


def of(out, case):
    found = {}
    for part in out:
        for side in ("promotes", "suppresses"):
            found |= {(part["position"], part["head"], one["id"]): real(one["logit"]) for one in part[side]}
    return found


def stats(out, case):
    is_count = lambda name: name.endswith("rows") and name != "one_key_rows" or name.startswith(("rank_", "max_", "overflow_")) or \
        name in ("kind", "nearest_head")
    return {(row["layer"], row["head"], name): x if is_count(name) else real(x)
            for row in out for name, x in row.items() if name not in ("layer", "head")}


def texts(by):
    def read(out, case):
        token = {f"w{i}": i for i in range(len(case.tensors[case.table]))} | {",": 5, ".": 7}
        of = {"text": lambda row: row["text"], "position": lambda row: row["position"], "token": lambda row: token[row["token"]],
              "spread": lambda row: None}[by]
        return {(row["layer"], row["head"], of(row), name): real(x) for row in out for name, x in row.items()
                if name.removesuffix("_sd") in maps.OF_TEXTS}
    return read


def top_texts(out, case):
    return {(i, what): row[what] for i, row in enumerate(out) for what in ("norm", "text", "position")}


def circuits(out, case):
    found = {}
    for row in out:
        at = row["layer"], row["head"]
        for name in ("qk_singular_values", "ov_singular_values"):
            found |= maps.numbers(np.array(row[name], float), *at, name)
        found |= weights.of_eigenvalues([complex(*pair) for pair in row["ov_eigenvalues"]], *at)
        found |= {(*at, name): real(row[name]) for name in ("qk_rank", "qk_max", "ov_rank", "ov_max", "ov_positive", "copying")}
    return found


def compositions(out, case):
    for row in out:
        assert abs(row["random"] - case.d ** -0.5) < 1e-15, "random"
    return {(row["kind"], row["layer"], row["head"], row["to_layer"], row["to_head"]): real(row["composition"]) for row in out}


def explanation(out, case):
    found = {}
    for name in ("x", "concat", "output", "b_o"):
        found |= maps.numbers(np.array(out[name], float), name) if name in out else {}
    if "b_o_share" in out:
        found["b_o_share",] = real(out["b_o_share"])
    for head in out["heads"]:
        h = head["head"]
        for name in ("q", "q_norm", "q_rope", "head_out", "head_result"):
            found |= maps.numbers(np.array(head[name], float), h, name) if name in head else {}
        for name in ("relative_norm", "share", "row_max", "row_sum", "logsumexp"):
            found[h, name] = real(head[name])
        for name, x in (head.get("sink") or {}).items():
            found[h, "sink", name] = real(x)
        for key in head["keys"]:
            found |= {(h, name, key["key"]): real(x) for name, x in key.items() if name not in ("key", "token", "masked")}
    return found


def array(out, case):
    return maps.numbers(np.array(out, float))


def layers(kind):
    def read(out, case):
        found = {}
        for n in range(case.layers):
            array = out[f"layers.{n}.{kind}"]
            for b, ids in enumerate((case.text[0], case.text[2])):
                rows = len(ids) if kind not in ("divergence", "received") else array.shape[-2]
                cols = len(ids) if kind != "divergence" else array.shape[-1]
                found |= maps.numbers(array[b][..., :rows, :cols], b, n)
        return found
    return read


def pooled(out, case):
    """The numbers on a picture's cells, each with half a unit of its last place; a masked cell has none."""
    cells = re.findall(r'<text x="([\d.]+)" y="([\d.]+)" font-size="10" fill="#(?:000000|ffffff)" [^>]*>([−\d.]+)</text>', out)
    xs, ys = (sorted({float(cell[i]) for cell in cells}) for i in (0, 1))
    return {(ys.index(float(y)), xs.index(float(x))): (float(text.replace("−", "-")), 0.5 * 10.0 ** -len(text.partition(".")[2]))
            for x, y, text in cells}
