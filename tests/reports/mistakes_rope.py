"""Rotary position embedding."""
import numpy as np

from report import report


@report("sgl-project/SpecForge#265 huggingface/candle#3746 lyogavin/airllm#369", r"rope\.base",
        "llama_long vicuna_million llama_long")
def default_base(p):
    "rotates with base 10000, whatever the config says"
    p.base = 10000.0


@report("raiyanyahya/how-to-train-your-gpt#6 baidu/ERNIE-Image#6", r"rope\.(pair|layout|angles)",
        "vicuna llama")
def angles_of_neighbours(p):
    "repeats each angle twice side by side, and turns halves"
    def rotate(x, angles):
        twice = np.repeat(angles, 2, axis=-1)
        half = x.shape[-1] // 2
        turned = np.concatenate([-x[..., half:], x[..., :half]], -1)
        return x * np.cos(twice) + turned * np.sin(twice)
    p.rotate = rotate


@report("EleutherAI/gpt-neox#834", r"rope\.(pair|layout|angles)", "vicuna")
def pairs_of_neighbours(p):
    "turns neighbours, with the angles laid out for halves"
    def rotate(x, angles):
        twice = np.concatenate([angles, angles], -1)
        turned = np.stack([-x[..., 1::2], x[..., ::2]], -1).reshape(x.shape)
        return x * np.cos(twice) + turned * np.sin(twice)
    p.rotate = rotate


@report("NVIDIA-NeMo/Speech#6923", r"rope\.style", "vicuna llama")
def neighbours(p):
    "pairs neighbours where the weights are made for halves"
    p.rope = "interleaved"


@report("karpathy/nanochat#489", r"rope\.(sign|sine|direction)", "llama")
def other_direction(p):
    "turns the other way: the transposed rotation"
    right = p.angles
    p.angles = lambda letter: -right(letter)


@report("hpcaitech/ColossalAI#6429", r"rope\.", "vicuna")
def crossed_halves(p):
    "takes the second half of q from k, and the first half of k from q"
    right = p.prepare

    def prepare(q, k):
        half = q.shape[-1] // 2
        q, k = right(q, k)
        q, k = (np.concatenate([q[..., :half], k[..., half:]], -1),
                np.concatenate([q[..., :half], k[..., half:]], -1))
        return p.keep("q_rope", q), p.keep("k_rope", k)
    p.prepare = prepare


@report("Blaizzy/mlx-vlm#1710 sbryngelson/ANEForge#58", r"rope\.scaling", "llama3")
def scaling_ignored(p):
    "leaves out the scaling of the frequencies"
    p.scaled_frequencies = lambda frequency: frequency


@report("pie-project/pie#603", r"rope\.(partial|dims|width|freq|pair)", "neox")
def frequencies_of_the_head(p):
    "rotates some dimensions with the frequencies and pairs of the head's whole width"
    def rotate(x, angles):
        half, turned = p.d_k // 2, p.rotary_dims // 2
        y, a, b = x.copy(), x[..., :turned], x[..., half:half + turned]
        angles = np.outer(p.positions("q"), p.base ** (-2 * np.arange(turned) / p.d_k))
        y[..., :turned] = a * np.cos(angles) - b * np.sin(angles)
        y[..., half:half + turned] = a * np.sin(angles) + b * np.cos(angles)
        return y
    p.rotate = rotate


@report("apple/coreai-models#66", r"rope\.(partial|dims|width|freq|pair)", "neox")
def pairs_of_the_head(p):
    "pairs the rotated dimensions across the head's whole width"
    def rotate(x, angles):
        half, turned = p.d_k // 2, p.rotary_dims // 2
        y, a, b = x.copy(), x[..., :turned], x[..., half:half + turned]
        y[..., :turned] = a * np.cos(angles) - b * np.sin(angles)
        y[..., half:half + turned] = a * np.sin(angles) + b * np.cos(angles)
        return y
    p.rotate = rotate


@report("AI-Hypercomputer/maxtext#4615", r"rope\.dims", "neox gptj")
def whole_heads(p):
    "rotates whole heads: partial_rotary_factor is dropped"
    p.rotary_dims = p.d_k


@report("huggingface/transformers#22161 PaddlePaddle/PaddleNLP#6616 tloen/alpaca-lora#315",
        r"rope\.(pad|offset|position)", "left_padded", "stages")
def positions_without_padding(p):
    "begins to count at the first token behind the padding, which this layer does not"
    pads = p.key_padding_mask.sum(1)

    def angles(letter):
        positions = np.maximum(np.arange(p.X.shape[-2]) - pads[:, None], 0)
        return (positions[..., None] * p.frequencies())[:, None]
    p.angles = angles
