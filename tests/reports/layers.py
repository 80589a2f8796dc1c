"""Small random layers of the kinds that people port: tensors and settings, by the names of the
layer file. T, S, H, H_kv and d_k differ, so that no axis passes for another."""
import numpy as np

D = 48


class Draw:
    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)

    def __call__(self, *shape, size=1.0):
        return (size * self.rng.standard_normal(shape)).astype(np.float32)

    def weight(self, rows, columns, size=1.0):
        return self(rows, columns, size=size / np.sqrt(rows))

    def around_one(self, n):
        return (1 + 0.3 * self.rng.standard_normal(n)).astype(np.float32)


def projections(draw, d_in, H, H_kv, d_k, d_out, biases=""):
    tensors = {"W_q": draw.weight(d_in, H * d_k, 1.4), "W_k": draw.weight(d_in, H_kv * d_k, 1.4),
               "W_v": draw.weight(d_in, H_kv * d_k), "W_o": draw.weight(H * d_k, d_out)}
    widths = {"q": H * d_k, "k": H_kv * d_k, "v": H_kv * d_k, "o": d_out}
    return tensors | {"b_" + letter: draw(widths[letter], size=0.5) for letter in biases}


def llama(seed=0, T=13, H=6, H_kv=2, d_k=8):
    draw = Draw(seed)
    tensors = {"X": draw(T, D), "norm.weight": draw.around_one(D)} | projections(draw, D, H, H_kv, d_k, D)
    return tensors, {"num_heads": H, "num_kv_heads": H_kv, "rope": "half", "causal": True,
                     "input_norm": "rms", "input_norm_eps": 1e-5}


def llama_long(seed=0):
    """positions far enough for the slow pairs to turn"""
    tensors, settings = llama(seed, T=70, d_k=16, H=4)
    return tensors, settings | {"rope_base": 500000.0}


def llama3(seed=0):
    """frequencies scaled as in Llama 3.1, its context length in small"""
    tensors, settings = llama_long(seed)
    return tensors, settings | {"rope_scaling": "llama3", "rope_factor": 8.0, "rope_low_freq_factor": 1.0,
                                "rope_high_freq_factor": 4.0, "rope_original_length": 40.0}


def linear(seed=0):
    """positions divided by 4"""
    tensors, settings = llama(seed, T=21)
    return tensors, settings | {"rope_scaling": "linear", "rope_factor": 4.0}


def vicuna(seed=0):
    """LLaMA with as many key heads as query heads"""
    return llama(seed, H=4, H_kv=4, d_k=12)


def vicuna_million(seed=0):
    tensors, settings = vicuna(seed)
    return tensors, settings | {"rope_base": 5e6}


def padded(seed=0):
    """causal, the second text padded on the right"""
    tensors, settings = llama(seed)
    mask = np.zeros((2, 13), bool)
    mask[1, 9:] = True
    return tensors | {"X": Draw([seed, 7])(2, 13, D), "key_padding_mask": mask}, settings


def qwen(seed=0):
    """Qwen 2: biases on q, k and v"""
    tensors, settings = llama(seed)
    draw = Draw([seed, 1])
    return tensors | {"b_q": draw(48, size=0.5), "b_k": draw(16, size=0.5), "b_v": draw(16, size=0.5)}, settings


def qwen3(seed=0):
    """QK normalisation, heads wider than d_model / H"""
    tensors, settings = llama(seed, H=6, H_kv=3, d_k=10)
    draw = Draw([seed, 2])
    return tensors | {"q_norm.weight": draw.around_one(10), "k_norm.weight": draw.around_one(10)}, settings


def mistral(seed=0):
    tensors, settings = llama(seed)
    return tensors, settings | {"window_left": 3}


def gemma2(seed=0):
    """soft cap, window, a scale of its own"""
    tensors, settings = llama(seed, H=4, H_kv=2, d_k=14)
    tensors["W_q"] = 3 * tensors["W_q"]
    return tensors, settings | {"window_left": 5, "softcap": 5.0, "scale": 0.25}


def neox(seed=0):
    """LayerNorm, biases, the first dimensions of a head rotated"""
    draw = Draw(seed)
    tensors = {"X": draw(11, D), "norm.weight": draw.around_one(D), "norm.bias": draw(D, size=0.3)}
    tensors |= projections(draw, D, 3, 3, 16, D, "qkvo")
    return tensors, {"num_heads": 3, "rope": "half", "rope_dims": 8, "causal": True,
                     "input_norm": "layer", "input_norm_eps": 1e-5}


def gptj(seed=0):
    tensors, settings = neox(seed)
    return {k: v for k, v in tensors.items() if not k.startswith("b_")}, settings | {"rope": "interleaved"}


def gpt2(seed=0):
    draw = Draw(seed)
    parts = projections(draw, D, 4, 4, 12, D, "qkvo")
    tensors = {"X": draw(10, D), "norm.weight": draw.around_one(D), "norm.bias": draw(D, size=0.3),
               "W_qkv": np.concatenate([parts["W_q"], parts["W_k"], parts["W_v"]], 1),
               "b_qkv": np.concatenate([parts["b_q"], parts["b_k"], parts["b_v"]]),
               "W_o": parts["W_o"], "b_o": parts["b_o"]}
    return tensors, {"num_heads": 4, "causal": True, "input_norm": "layer", "input_norm_eps": 1e-5}


def bert(seed=0):
    """two texts of a batch, the second padded on the right"""
    draw = Draw(seed)
    tensors = {"X": draw(2, 9, D)} | projections(draw, D, 4, 4, 12, D, "qkvo")
    mask = np.zeros((2, 9), bool)
    mask[1, 6:] = True
    return tensors | {"key_padding_mask": mask}, {"num_heads": 4}


def left_padded(seed=0):
    tensors, settings = llama(seed)
    draw = Draw([seed, 3])
    mask = np.zeros((2, 13), bool)
    mask[0, :4] = True
    return tensors | {"X": draw(2, 13, D), "key_padding_mask": mask}, settings


def plain(seed=0):
    """projections, no bias, no mask, no norm"""
    draw = Draw(seed)
    return {"X": draw(7, D)} | projections(draw, D, 4, 4, 12, 40), {"num_heads": 4}


def vit(seed=0):
    """square, with biases, in a batch"""
    draw = Draw(seed)
    return {"X": draw(3, 10, D)} | projections(draw, D, 4, 4, 12, D, "qkvo"), {"num_heads": 4}


def decoder(seed=0):
    """causal alone: what teaching code computes"""
    draw = Draw(seed)
    return {"X": draw(11, D)} | projections(draw, D, 4, 4, 12, D), {"num_heads": 4, "causal": True}


def scaled_by_width(seed=0):
    """divided by d_k, as maximal update parametrisation does"""
    tensors, settings = decoder(seed)
    return {k: 2 * v if k == "W_q" else v for k, v in tensors.items()}, settings | {"scale": 1 / 12}


def bert_open(seed=0):
    """nothing is hidden"""
    tensors, settings = bert(seed)
    return {k: v for k, v in tensors.items() if k != "key_padding_mask"}, settings


def masked(seed=0):
    """a boolean mask of its own, true = may attend"""
    tensors, settings = plain(seed)
    mask = Draw([seed, 4]).rng.random((1, 1, 7, 7)) < 0.6
    return tensors | {"mask": mask | np.eye(7, dtype=bool)}, settings


def cross(seed=0):
    draw = Draw(seed)
    tensors = {"X": draw(7, D), "X_kv": draw(11, D)} | projections(draw, D, 4, 4, 12, D, "qvo")
    return tensors, {"num_heads": 4}


def cross_causal(seed=0):
    """fewer queries than keys, causal from the first key on, as PyTorch has it"""
    tensors, settings = cross(seed)
    return tensors, settings | {"causal": True, "causal_align": "top_left"}


def bloom(seed=0):
    draw = Draw(seed)
    tensors = {"X": draw(12, D)} | projections(draw, D, 6, 6, 8, D, "qkvo")
    return tensors, {"num_heads": 6, "causal": True, "alibi": "true"}


def bloom8(seed=0):
    draw = Draw(seed)
    return ({"X": draw(12, D)} | projections(draw, D, 8, 8, 6, D, "qkvo"),
            {"num_heads": 8, "causal": True, "alibi": "true"})


def t5(seed=0):
    """no scale, a bias of relative positions"""
    draw = Draw(seed)
    tensors = {"X": draw(9, D), "norm.weight": draw.around_one(D)} | projections(draw, D, 4, 4, 12, D)
    tensors["W_q"] = tensors["W_q"] / 3
    relative = draw(4, 17)
    distance = np.arange(9)[None, :] - np.arange(9)[:, None] + 8
    return tensors | {"bias": relative[:, distance][None]}, {
        "num_heads": 4, "scale": 1.0, "input_norm": "rms", "input_norm_eps": 1e-6}


def gpt_oss(seed=0):
    """sinks and biases"""
    tensors, settings = qwen(seed)
    draw = Draw([seed, 5])
    return tensors | {"sinks": draw(6), "b_o": draw(D, size=0.5)}, settings


def cached(seed=0):
    """five earlier keys and values"""
    tensors, settings = llama(seed, T=6)
    draw = Draw([seed, 6])
    return tensors | {"k_past": draw(2, 5, 8), "v_past": draw(2, 5, 8)}, settings


def meta(seed=0):
    """Llama in Meta's own weights: neighbours are pairs"""
    tensors, settings = llama(seed)
    return tensors, settings | {"rope": "interleaved"}


def rope_far(seed=0):
    """positions at which rounded frequencies are off by a part of a turn"""
    tensors, settings = llama(seed, T=90, d_k=16, H=4)
    return tensors, settings


def gemma_x(seed=0):
    """norm weights as 1 + w, w far from 0"""
    tensors, settings = llama(seed)
    return tensors | {"norm.weight": 1 + Draw([seed, 8])(D, size=0.5)}, settings


def small_x(seed=0, eps=1e-5):
    """an input whose mean square is not far above epsilon, as after an embedding"""
    tensors, settings = llama(seed)
    return tensors | {"X": 0.01 * tensors["X"]}, settings | {"input_norm_eps": eps}


def small_x6(seed=0):
    return small_x(seed, 1e-6)


def small_x_layer(seed=0):
    tensors, settings = gpt2(seed)
    return tensors | {"X": 0.01 * tensors["X"]}, settings


def masked_row(seed=0):
    """a query that may attend to nothing"""
    tensors, settings = masked(seed)
    mask = tensors["mask"].copy()
    mask[..., 2, :] = False
    return tensors | {"mask": mask}, settings


def llama_residual(seed=0):
    tensors, settings = llama(seed)
    return tensors, settings | {"residual": True}


def with_residual(seed=0):
    tensors, settings = gpt2(seed)
    return tensors, settings | {"residual": True}


LAYERS = {name: value for name, value in list(globals().items())
          if callable(value) and name.islower() and name != "projections"}
