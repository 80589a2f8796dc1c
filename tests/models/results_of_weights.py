"""What weights say by themselves: circuits of a head, their composition, circuits between tokens.

Written from docs/circuits.md. Each function takes a Reference (rounding.py) and gives {key: number, or what is no number}.
"""
import numpy as np

from forward import Norm, identity
from results_of_maps import numbers
from results_of_runs import Refused


def reading(norm, W):
    """W with the norm before it folded in: C diag(gain) W."""
    if not isinstance(norm, Norm):  # the identity, or numbers that multiply and others that are added
        return (norm(np.eye(len(W))) - norm(np.zeros(len(W)))) @ W
    folded = (np.ones(len(W)) * norm.weight)[:, None] * W
    return folded - folded.mean(0) if norm.kind == "layer" else folded


def norm_before(block):
    """Attention's own."""
    return identity if block.shape in ("post", "inside") else block.n1


def of_head(W, h, count):
    return W.reshape(len(W), count, -1)[:, h]


def projections(ref, n, offset=0):
    """Of each head W_q, W_k, W_v, W_o, from the stream to the stream; W_q None where no matrix stands between tokens."""
    block = ref.model.blocks[n]
    a, heads = block.attention, []
    group = a.num_heads // a.num_kv_heads
    for h in range(a.num_heads):
        q, k, v = of_head(a.q.weight, h, a.num_heads), of_head(a.k.weight, h // group, a.num_kv_heads), \
            of_head(a.v.weight, h // group, a.num_kv_heads)
        q, k, v, o = (ref.rounding(W, True) for W in (q, k, v, of_head(a.o.weight.T, h, a.num_heads).T))
        if a.rope:
            q, k = a.rope(q, np.full(len(q), offset)), a.rope(k, np.zeros(len(k), int))
        before = norm_before(block)
        q, k, v = reading(before, q), reading(before, k), reading(before, v)
        heads.append((None if a.q_norm else q, None if a.q_norm else k, v, o))
    return heads


def rank_of(sigma):
    p = sigma / sigma.sum()
    return float(np.exp(-(p * np.log(np.where(p > 0, p, 1))).sum()))


def positive(eigenvalues):
    return float(eigenvalues.real.sum() / abs(eigenvalues).sum())


def vocabulary(ref):
    """W_U W_E, and why there is none."""
    case, model = ref.case, ref.model
    if not model.head or model.head.transform is not identity:
        return None
    W_E, W_U = case.rows_of_tokens(scaled=False), reading(model.final or identity, model.head.decoder.weight)
    return None if len(W_U.T) != len(W_E) else W_U @ W_E


def spectra(ref, n, h, q, k, v, o):
    found = {}
    if q is not None:
        sigma = np.linalg.svd(q @ k.T, compute_uv=False)[:min(q.shape)]
        found |= numbers(sigma, n, h, "qk_singular_values") | {(n, h, "qk_rank"): rank_of(sigma), (n, h, "qk_max"): float(sigma[0])}
    else:
        found |= {(n, h, "qk_rank"): None, (n, h, "qk_max"): None}
    sigma = np.linalg.svd(v @ o, compute_uv=False)[:min(v.shape)]
    eigenvalues = np.linalg.eigvals(o @ v) if len(o) <= len(v) else np.linalg.eigvals(v @ o)
    return found | numbers(sigma, n, h, "ov_singular_values") | of_eigenvalues(eigenvalues, n, h) | {
        (n, h, "ov_rank"): rank_of(sigma), (n, h, "ov_max"): float(sigma[0]), (n, h, "ov_positive"): positive(eigenvalues)}


def of_eigenvalues(values, *key):
    """What tells eigenvalues whatever their order: their sizes, and the sums of their first powers."""
    values = np.asarray(values, complex)
    return numbers(np.sort(abs(values)), *key, "sizes") | {
        (*key, "power", k): float((values ** k).sum().real) for k in (1, 2, 3)}


def circuits(ref, offset=0):
    """(layer, head, column) -> number."""
    found, between = {}, vocabulary(ref)
    for n in range(len(ref.model.blocks)):
        for h, (q, k, v, o) in enumerate(projections(ref, n, offset)):
            found |= spectra(ref, n, h, q, k, v, o)
            found[n, h, "copying"] = None if between is None else positive(np.linalg.eigvals(o @ between @ v))
    return found


def compositions(ref):
    """(kind, layer, head, later layer, head) -> how much of what the one writes the other reads."""
    found, layers = {}, [projections(ref, n) for n in range(len(ref.model.blocks))]
    norm = np.linalg.norm
    for n, heads in enumerate(layers):
        for later in range(n + 1, len(layers)):
            for h, (_, _, v, o) in enumerate(heads):
                for g, (q, k, v_, o_) in enumerate(layers[later]):
                    A = v @ o
                    read = {"v": v_ @ o_} | ({} if q is None else {"q": q @ k.T, "k": k @ q.T})
                    for kind, B in read.items():
                        found[kind, n, h, later, g] = float(norm(A @ B) / norm(A) / norm(B))
    return found


def between_tokens(ref, tokens, kind):
    """(layer, head, token, token) -> W_E QK W_Eᵀ, or W_E OV W_U."""
    model, found = ref.model, {}
    W_E = ref.case.rows_of_tokens(scaled=True)[tokens]
    if kind == "ov":
        if not model.head:
            raise Refused("the model has no unembedding")
        if model.head.transform is not identity:
            raise Refused("the head has a layer of its own")
        W_U = reading(model.final or identity, model.head.decoder.weight[:, tokens])
    for n in range(len(model.blocks)):
        for h, (q, k, v, o) in enumerate(projections(ref, n)):
            if kind == "qk" and q is None:
                raise Refused("its queries and keys are normalised")
            found |= numbers(W_E @ q @ (W_E @ k).T if kind == "qk" else W_E @ v @ o @ W_U, n, h)
    return found
