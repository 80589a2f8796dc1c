"""Position biases and sinks."""
import numpy as np

from report import report


@report("ml-explore/mlx#3071 ml-explore/mlx#343 baichuan-inc/Baichuan2#225", r"alibi\.(slopes|series|form|fit)", "bloom")
def one_geometric_series(p):
    "takes one geometric series of slopes, although the heads are no power of two"
    p.slopes = lambda: 2.0 ** (-8 * np.arange(1, p.H + 1) / p.H)


@report("paiml/aprender#2143", r"alibi\.(slopes|series|form|fit)", "bloom8")
def slopes_from_one(p):
    "begins the slopes at 1: the exponent counts heads from 0"
    p.slopes = lambda: 2.0 ** (-8 * np.arange(p.H) / p.H)


@report("NVIDIA/TensorRT-LLM#13870", r"(bias|position|relative)\..*", "t5")
def no_position_bias(p):
    "adds no position bias once there is a cache"
    p.bias = None


@report("vllm-project/vllm#52156 vllm-project/vllm-metal#550", r"sinks\.missing", "gpt_oss")
def no_sinks(p):
    "leaves the sinks out"
    p.sinks = None


@report("suno-ai/bark#662 meta-pytorch/torchtune#1791 facebookresearch/vjepa2#160 "
        "huggingface/pytorch-image-models#1978 NVIDIA/torch-harmonics#221", r"dropout\.on",
        "gpt2 llama vit vit plain", "stages")
def dropout(p):
    "drops weights at random although nothing is trained"
    rng = np.random.default_rng(5)
    p.after_softmax = lambda weights: weights * (rng.random(weights.shape) < 0.8) / 0.8
