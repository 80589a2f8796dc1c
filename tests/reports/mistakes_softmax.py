"""The softmax, and the soft cap before it."""
import numpy as np

from report import report


def over(axis):
    def softmax(scores):
        e = np.exp(scores - scores.max(axis, keepdims=True))
        return e / e.sum(axis, keepdims=True)
    return softmax


@report("FudanNLP/fastNLP#254 nerdai/llms-from-scratch-rs#30 nerminnuraydogan/vision-transformer#1 "
        "labmlai/annotated_deep_learning_paper_implementations#146", r"softmax\.axis", "plain vit vit bert_open")
def over_queries(p):
    "takes the softmax over the queries"
    p.softmax = over(-2)


@report("jadore801120/attention-is-all-you-need-pytorch#52 PetrochukM/PyTorch-NLP#2", r"softmax\.(heads|axis)",
        "plain cross")
def over_heads(p):
    "takes the softmax over the first axis, that of (batch and) heads"
    p.softmax = over(1)


@report("sgl-project/sglang#33915 vllm-project/vllm-metal#665", r"softcap\.missing", "gemma2")
def uncapped(p):
    "does not cap the scores"
    p.softcap = 0
