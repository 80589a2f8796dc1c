"""Norms before the layer and of q and k."""
from report import report


@report("vllm-project/vllm-metal#660", r"norm\.after_rope", "qwen3")
def norm_after_rope(p):
    "rotates q and k first, and normalises them then"
    def prepare(q, k):
        q, k = (p.keep(n + "_rope", p.rotate(x, p.angles(n))) for n, x in (("q", q), ("k", k)))
        return (p.keep("q_norm", p.norm_heads(q, p.q_norm_weight)),
                p.keep("k_norm", p.norm_heads(k, p.k_norm_weight)))
    p.prepare = prepare


@report("vllm-project/vllm-metal#659", r"norm\.missing", "qwen3")
def no_qk_norm(p):
    "does not normalise q and k: their norms have another name"
    p.q_norm_weight = p.k_norm_weight = None
