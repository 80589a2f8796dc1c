"""Rotary position embedding."""
import numpy as np

from port import to_bf16
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


@report("NVIDIA-NeMo/Speech#6923 huggingface/transformers#25199 huggingface/transformers#31859 "
        "huggingface/transformers#33826 naklecha/llama3-from-scratch#20", r"rope\.style",
        "vicuna llama qwen mistral llama")
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


@report("pytorch/torchtitan#335 Dao-AILab/flash-attention#288", r"rope\.style", "gptj meta")
def halves(p):
    "pairs halves where the weights are made for neighbours"
    p.rope = "half"


@report("ml-explore/mlx-lm#1507 vllm-project/vllm#48351 sgl-project/sglang#22711",
        r"rope\.(attention|factor|scaling|mscale|magnitude)|scale\.", "llama_long llama llama_long")
def computed_attention_factor(p):
    "multiplies cos and sin by 0.1 ln(factor) + 1, although the config's attention_factor is 1"
    right = p.rotate
    p.rotate = lambda x, angles: right(x, angles) * (0.1 * np.log(16) + 1)


@report("RobertCsordas/moeut#6", r"rope\.(offset|position)", "cached")
def queries_from_zero(p):
    "rotates queries as if they stood at position 0: the offset is taken before the cache is added"
    p.positions = lambda letter: (p.past if letter == "k" else 0) + np.arange(p.X.shape[-2], dtype=float)


@report("skyzh/tiny-llm#46", r"rope\.(offset|position)", "cached")
def offset_counted_twice(p):
    "adds the number of cached tokens twice"
    p.positions = lambda letter: 2 * p.past + np.arange(p.X.shape[-2], dtype=float)


@report("rajveer43/VeloxQuant-MLX#389 rajveer43/VeloxQuant-MLX#195 rajveer43/VeloxQuant-MLX#196 warpfront/hipfire#391",
        r"rope\.(offset|position)", "cached")
def offset_of_retained_rows(p):
    "begins at the number of retained rows, behind the true position"
    p.positions = lambda letter: p.past - 2 + np.arange(p.X.shape[-2], dtype=float)


@report("EleutherAI/gpt-neox#1003 huggingface/transformers#25681 huggingface/transformers#29496 "
        "huggingface/transformers#29285 NVIDIA/Megatron-LM#744 Modalities/modalities#462 nkalyanv99/UNI-D2#6",
        r"rope\.(angles|precision|bf16|rounded)|precision\.", "rope_far")
def frequencies_in_bfloat16(p):
    "computes the angles in bfloat16"
    p.angles = lambda letter: to_bf16(np.outer(to_bf16(p.positions(letter)), to_bf16(p.frequencies())))


@report("kvcache-ai/sglang#66", r"rope\.(missing|k|only|one)", "llama")
def keys_not_rotated(p):
    "rotates queries alone: rotated keys are written to the cache only"
    right = p.prepare

    def prepare(q, k):
        q, _ = right(q, k)
        return q, p.keep("k_rope", k)
    p.prepare = prepare
