"""Masks, windows and padding."""
import numpy as np

from report import report


@report("huggingface/transformers#39408 ml-explore/mlx-lm#390 zml/zml#763 AI-Hypercomputer/maxtext#4289 "
        "vllm-project/vllm#9679", r"window\.plus_one", "mistral gemma2 mistral mistral gemma2")
def window_too_long(p):
    "lets a query see one key more than the window"
    p.window += 1


@report("ml-explore/mlx#2836", r"causal\.bottom_right", "cross_causal")
def aligned_to_the_last_key(p):
    "aligns the causal mask to the last key where PyTorch begins at the first"
    p.from_first_key = False


@report("pytorch/pytorch#103082 pytorch/pytorch#108108 onnx/onnx#8068", r"causal\.top_left", "cached")
def aligned_to_the_first_key(p):
    "aligns the causal mask to the first key, although earlier keys stand before it"
    p.distances = lambda T, S: np.arange(S)[None, :] - np.arange(T)[:, None]


@report("facebookresearch/xformers#103 facebookresearch/xformers#1135", r"causal\.missing", "decoder gpt2")
def not_causal(p):
    "applies no causal mask"
    p.causal = False


@report("huggingface/candle#3609", r"causal\.missing", "padded")
def padding_for_causal(p):
    "lets the padding mask replace the causal one"
    p.causal = False


@report("jingyaogong/minimind-v#76 tloen/alpaca-lora#107 mlverse/torch#1208 pytorch/pytorch#92554",
        r"mask\.missing|padding\.missing", "bert padded bert bert")
def padding_seen(p):
    "does not hide the padding"
    p.key_padding_mask = None


@report("hyunwoongko/transformer#40 lsdefine/attention-is-all-you-need-keras#16", r"mask\.|padding\.", "bert")
def padding_of_queries(p):
    "broadcasts the padding mask along the keys, not the queries"
    p.mask_value = -10000.0
    p.visible = lambda T, S: ~p.key_padding_mask[:, None, :, None] & np.ones((T, S), bool)


@report("Biohub/esm#299", r"mask\.|padding\.", "bert")
def padding_sees_padding(p):
    "lets tokens see tokens and padding see padding"
    mask = p.key_padding_mask
    p.visible = lambda T, S: (mask[:, :, None] == mask[:, None, :])[:, None]


@report("rasbt/LLMs-from-scratch#1061", r"(mask|causal)\.inverted", "decoder")
def upper_triangle(p):
    "hands the upper triangle to a function that takes true as: may attend"
    right = p.visible
    p.visible = lambda T, S: ~right(T, S)


@report("mlwithme/TransformerTranslation#6 InseeFrLab/torchTextClassifiers#92", r"mask\.inverted", "bert masked")
def inverted(p):
    "hides what it should see, and sees what it should hide"
    right = p.visible
    p.visible = lambda T, S: ~right(T, S)


@report("Shujun-He/RibonanzaNet#5 awslabs/gluonts#1401 hyunwoongko/transformer#10", r"mask\.(constant|fill|value)",
        "bert decoder masked")
def tiny_constant(p):
    "fills hidden scores with -1e-9"
    p.mask_value = -1e-9


@report("30stomercury/Interaction-Aware-Attention-Network#1 georg-wolflein/good-features#1",
        r"mask\.(constant|fill|value)", "bert masked")
def filled_with_zero(p):
    "fills hidden scores with 0"
    p.mask_value = 0.0


@report("lsdefine/attention-is-all-you-need-keras#36", r"mask\.(batch|item|tiled|repeated)", "bert")
def mask_of_another_text(p):
    "repeats the mask along (B · H) in the order of heads first, so that heads get other texts' masks"
    def visible(T, S):
        of = np.repeat(~p.key_padding_mask, p.H, 0).reshape(p.H, -1, S).swapaxes(0, 1)
        return of[:, :, None, :] & np.ones((T, 1), bool)
    p.visible = visible


@report("HKUSTDial/flash-sparse-attention#146 pytorch/pytorch#136816", r"mask\.added", "decoder bert")
def ones_and_zeros_added(p):
    "adds a mask of 1 and 0 to the scores, where 0 and -inf are meant"
    p.apply_mask = lambda scores: scores + p.visible(*scores.shape[-2:])


@report("huggingface/pytorch-image-models#2236", r"mask\.(after|late)|softmax\.", "masked")
def after_the_softmax(p):
    "takes the softmax of all keys, and zeroes the hidden ones then"
    p.apply_mask = lambda scores: scores
    p.after_softmax = lambda weights: weights * p.visible(*weights.shape[-2:])


@report("pbloem/former#10", r"causal\.strict", "decoder")
def own_key_hidden(p):
    "hides the diagonal, too: triu with offset 0"
    right = p.visible
    p.visible = lambda T, S: right(T, S) & (p.distances(T, S) < 0)


@report("huggingface/transformers#29777 sgl-project/sglang#33915", r"window\.missing", "mistral gemma2")
def no_window(p):
    "sees every earlier key: the window is not applied"
    p.window = -1


@report("huggingface/transformers#38002", r"window\.", "llama")
def window_not_meant(p):
    "applies the window of the config, although use_sliding_window is false"
    p.window = 4


@report("huggingface/transformers#41228", r"window\.|causal\.|mask\.", "mistral")
def window_on_the_other_side(p):
    "hides what lies up to a window ahead, and nothing else: the diagonal has the wrong sign"
    p.visible = lambda T, S: ~((p.distances(T, S) > 0) & (p.distances(T, S) <= p.window + 1))[None, None]


@report("tracel-ai/burn#4697 robertknight/rten#1321 pytorch/pytorch#131060 iree-org/iree#24175",
        r"masked_rows|mask(ed)?\.rows", "left_padded masked_row left_padded masked_row")
def nan_where_nothing_is_seen(p):
    "divides 0 by 0 where a query may attend to nothing"
    def softmax(scores):
        e = np.exp(scores - scores.max(-1, keepdims=True))
        return e / e.sum(-1, keepdims=True)
    p.softmax = softmax


@report("ml-explore/mlx#2395", r"masked_rows|mask(ed)?\.(rows|constant|fill|value)", "masked_row")
def uniform_where_nothing_is_seen(p):
    "attends to every key alike where a query may attend to nothing: hidden scores are finfo.min"
    p.mask_value = np.finfo(np.float32).min
