"""What scores are multiplied by, and how many key heads there are."""
import math

import numpy as np

from report import report


@report("omihub777/ViT-CIFAR#11 juho-lee/set_transformer#18 karpathy/ng-video-lecture#6 "
        "Graylab/DL4Proteins-notebooks#12 rezazad68/TMUnet#13 lucidrains/vit-pytorch#65 "
        "chelsea0x3b/dfdx#171 Jinbo-Hu/PSELDNets#3 FareedKhan-dev/train-llm-from-scratch#3", r"scale\.d_model",
        "vit plain decoder decoder bert qwen3 cross vit decoder")
def width_of_the_model(p):
    "divides by the root of d_model, not of a head's width"
    p.scale = 1 / math.sqrt(p.d_model)


@report("thegregyang/NTK4A#3 delzac/cntkx#10", r"scale\.(d_k|twice)", "decoder plain")
def no_root(p):
    "divides by d_k without the root"
    p.scale = 1 / p.d_k


@report("charliezchen/scaling-matrix-preconditioning#2", r"scale\.", "scaled_by_width")
def root_where_none_is_meant(p):
    "divides by the root of d_k where the paper divides by d_k"
    p.scale = 1 / math.sqrt(p.d_k)


@report("iree-org/iree#16679", r"scale\.|softmax\.", "plain")
def exponential_of_base_two(p):
    "takes 2 to the power of the scores: log2(e), computed into the scale, is not used"
    e = p.softmax
    p.softmax = lambda scores: e(scores * math.log(2))


@report("onnx/onnx#7274 apple/axlearn#842 microsoft/onnxscript#2408 ekzhang/jax-js#180", r"gqa\.tiled",
        "llama qwen mistral gpt_oss")
def tiled_heads(p):
    "repeats key heads as 0 1 0 1, not 0 0 1 1"
    p.repeat = lambda kv: np.tile(kv, (1, p.H // p.H_kv, 1, 1))


@report("FlashML-org/FreeToken#177", r"gqa\.", "llama")
def tiles_over_groups(p):
    "finds the key head for two query heads at once, the first of which may be of another group"
    p.repeat = lambda kv: kv[:, [h // 2 * 2 // (p.H // p.H_kv) for h in range(p.H)]]


@report("mlc-ai/mlc-llm#3426 PAIR-code/tiny-transformers#71 microsoft/MInference#69", r"scale\.missing",
        "bert decoder llama")
def unscaled(p):
    "does not scale the scores"
    p.scale = 1.0


@report("esceptico/perceiver-io#9", r"scale\.", "cross")
def divided_by_the_scale(p):
    "divides by 1/sqrt(d_k)"
    p.scale = math.sqrt(p.d_k)
