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


@report("linkedin/Liger-Kernel#74 pytorch/executorch#19901", r"(input_)?norm\..*(plus|one|offset)|input_norm\.", "gemma_x")
def without_one(p):
    "multiplies by w where Gemma means 1 + w"
    p.norm_weight = p.norm_weight - 1


@report("utensils/mold#1074 Blaizzy/mlx-vlm#2041", r"(input_)?norm\..*(plus|one|offset)|input_norm\.", "gemma_x llama")
def one_too_many(p):
    "multiplies by 1 + w where the 1 is in the weights already"
    p.norm_weight = p.norm_weight + 1


@report("apache/tvm#15856 NVIDIA/cutlass#1112 foundation-model-stack/foundation-model-stack#99",
        r"(input_)?norm\.eps|input_norm\.", "small_x")
def smaller_epsilon(p):
    "takes epsilon 1e-6 where the model has 1e-5"
    p.eps = 1e-6


@report("paiml/aprender#1606 huggingface/candle#271 mosaicml/llm-foundry#1399",
        r"(input_)?norm\.eps|input_norm\.", "small_x6")
def larger_epsilon(p):
    "takes epsilon 1e-5 where the model has 1e-6"
    p.eps = 1e-5


@report("mindspore-lab/mindone#219", r"(input_)?norm\.eps|input_norm\.", "small_x_layer")
def epsilon_of_another_library(p):
    "takes LayerNorm's epsilon 1e-7 where the model has 1e-5"
    p.eps = 1e-7


@report("facebookresearch/xformers#233 jadore801120/attention-is-all-you-need-pytorch#142",
        r"(input_)?norm\..*(kv|k_v|q|missing|queries)|input_norm\.", "neox gpt2")
def queries_alone_normalised(p):
    "normalises what queries are made of, not what keys and values are"
    p.X_kv = p.X


@report("Howuhh/faster-trajectory-transformer#3 lbcb-sci/RiNALMo#9 allenai/OLMo#680 pytorch/pytorch#61165 "
        "1bit-MONSTER/1bit-MONSTER#979", r"residual\.(norm|from|of|input)", "with_residual with_residual llama_residual "
        "with_residual llama_residual")
def residual_of_the_norm(p):
    "adds the normalised input back, not the input"
    p.add_residual = lambda x, y: p.norm(x) + y
