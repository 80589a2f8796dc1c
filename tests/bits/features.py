"""What may be special about a layer, and how a run of many layers has every one of them several times."""
import numpy as np

# Of each of these a layer has at most one.
ALTERNATIVES = [
    ["gqa", "mqa"],
    ["X_kv", "X_k_X_v", "W_qkv", "packed_QKV", "split_qkv", "no_W_q", "given_q_norm", "given_k_rope", "given_k_all",
     "given_scores", "given_scaled", "given_capped", "given_biased", "given_masked", "given_row_max", "given_shifted",
     "given_exp", "given_weights", "given_head_out", "given_concat", "given_output"],
    ["one_token", "one_key"],
    ["float_mask", "infinite_mask", "short_mask", "bool_mask"],
    ["key_padding_mask", "attention_mask"],
    ["alibi_true", "alibi_bloom", "alibi_falcon", "alibi_mpt"],
    ["relative_bias", "relative_one_way"],
    ["causal", "causal_top_left", "causal_bottom_right"],
    ["rope_half", "rope_interleaved"],
    ["rope_linear", "rope_llama3"],
    ["rope_offset", "positions"],
    ["qk_norm", "qk_norm_whole", "qk_norm_one_plus"],
    ["norm_layer", "norm_rms"],
    ["scale_number", "scale_none", "scale_d_model"],
    ["masked_nan", "masked_uniform"],
    ["nan", "infinity", "huge", "tiny"],
]
ALONE = ["batch", "biases", "no_W_o", "weights_per_head", "columns", "block_mask", "kv_lengths", "bias", "softcap",
         "window_left", "window_right", "past", "extra_key", "zero_attn", "sinks", "rope_dims", "naive", "residual", "float16"]
FEATURES = [name for group in ALTERNATIVES for name in group] + ALONE

# What a layer that starts late, or has no projections, cannot have.
LATE = ["past", "extra_key", "zero_attn", "rope_half", "rope_interleaved", "rope_dims", "rope_offset", "positions", "rope_linear",
        "rope_llama3", "qk_norm", "qk_norm_whole", "qk_norm_one_plus", "norm_layer", "norm_rms", "scale_d_model", "gqa", "mqa"]
NO_PROJECTIONS = ["norm_layer", "norm_rms", "W_qkv", "weights_per_head", "no_W_q", "scale_d_model"]
# What needs keys.
KEYS = ["key_padding_mask", "attention_mask", "kv_lengths", "bias", "block_mask", "float_mask", "infinite_mask", "short_mask",
        "bool_mask"]
EXCLUDES = {
    "given_output": LATE + KEYS + ["no_W_o", "weights_per_head", "naive", "biases"],
    "given_concat": LATE + KEYS + ["no_W_o", "residual", "weights_per_head"],
    "given_head_out": LATE + KEYS + ["residual", "weights_per_head"],
    "given_k_rope": ["rope_dims", "qk_norm_whole"],
    "given_k_all": ["columns"],
    "packed_QKV": NO_PROJECTIONS,
    "split_qkv": NO_PROJECTIONS,
    "no_W_q": ["weights_per_head"],
    "W_qkv": ["weights_per_head"],
    "positions": ["X_kv", "X_k_X_v"],
    "no_W_o": ["residual"],
}
for stage in ("scores", "scaled", "capped", "biased", "masked", "shifted", "exp", "weights"):
    EXCLUDES.setdefault("given_" + stage, LATE + ["weights_per_head"])
EXCLUDES["given_scaled"] = []


def conflict(a, b):
    return b in EXCLUDES.get(a, ()) or a in EXCLUDES.get(b, ()) or any(a in group and b in group for group in ALTERNATIVES)


def draw_features(seed, layers):
    """A list of features for each layer: every feature comes round in turn, with up to six others that fit."""
    rng = np.random.default_rng([seed, 1 << 20])
    turn = []
    lists = []
    for _ in range(layers):
        mine = []
        for _ in range(int(rng.integers(1, 8))):
            if not turn:
                turn = [FEATURES[i] for i in rng.permutation(len(FEATURES))]
            fits = [name for name in turn if not any(name == other or conflict(name, other) for other in mine)]
            if fits:
                turn.remove(fits[0])
                mine.append(fits[0])
        lists.append(mine)
    return lists
