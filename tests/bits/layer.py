"""Random layers of every kind, from a seed: sizes, projections, keys, masks, positions, stages that are given.

Nothing here comes from the program or its tests: a mistake there must not hide in the layers that find it.
"""
import math

import numpy as np

from features import FEATURES

# (share of the layers, T, heads, width of a head, d_model): the largest of each.
SIZES = {
    "small": (0.55, (1, 40), 6, 16, 48),
    "blocks": (0.20, (250, 420), 3, 24, 80),
    "tiles": (0.13, (513, 700), 2, 32, 96),
    "wide": (0.12, (30, 200), 7, 64, 300),
}


class Layer:
    """What the files hold: tensors and settings of one file, tensors that are bound (NAME=FILE)."""

    def __init__(self):
        self.tensors, self.bound, self.settings = {}, {}, {}
        self.features = []
        self.description = ""


class Maker:
    """Draws one layer. Features are drawn by `wanted`, which every layer of a run fills in turn."""

    def __init__(self, seed, index, wanted):
        self.rng = np.random.default_rng([seed, index])
        self.layer = Layer()
        self.features = set(wanted)
        self.dtype = np.float64 if index % 4 == 3 else np.float32
        self.size = self.draw_size()

    def has(self, *names):
        return any(name in self.features for name in names)

    def chance(self, p):
        return self.rng.random() < p

    def count(self, low, high):
        return int(self.rng.integers(low, high + 1))

    def numbers(self, *shape, size=1.0):
        return (size * self.rng.standard_normal(shape)).astype(self.dtype)

    def weight(self, rows, cols):
        return self.numbers(rows, cols, size=1.3 / math.sqrt(rows))

    def put(self, name, array):
        self.layer.tensors[name] = array

    def set(self, name, value):
        self.layer.settings[name] = value

    def unbatched(self, array):
        return array if self.batched else array[0]

    def draw_size(self):
        names = list(SIZES)
        return names[self.rng.choice(len(names), p=[SIZES[name][0] for name in names])]

    def make(self):
        self.draw_dimensions()
        self.make_start()
        self.make_other_keys()
        self.make_masks()
        self.make_positions()
        self.make_settings()
        self.spoil()
        self.turn_columns()
        self.round_to_half()
        layer = self.layer
        layer.features = sorted(self.features)
        layer.description = (f"{self.size} {np.dtype(self.dtype).name} B{self.B} T{self.T} S{self.S} P{self.P} H{self.H} "
                             f"H_kv{self.H_kv} d_k{self.d_k} d_v{self.d_v} d_model{self.d_model}: {' '.join(layer.features)}")
        return layer

    def draw_dimensions(self):
        _, tokens, heads, width, d_model = SIZES[self.size]
        self.rotates = self.has(*(name for name in FEATURES if name.startswith("rope")), "positions")
        self.cross = self.has("X_kv", "X_k_X_v")
        self.batched = self.has("batch") or self.chance(0.3)
        self.B = self.count(2, 3) if self.has("batch") and self.size == "small" else 2 if self.has("batch") else 1
        self.T = 1 if self.has("one_token") else self.count(*tokens)
        self.S = (1 if self.has("one_key") else self.count(*tokens)) if self.cross else self.T
        self.H = self.H_kv = self.count(1, heads)
        if self.has("gqa"):
            self.H_kv = self.count(1, 2)
            self.H = self.H_kv * self.count(2, 3)
        if self.has("mqa"):
            self.H, self.H_kv = self.count(2, 4), 1
        self.d_k, self.d_v = self.count(1, width), self.count(1, width)
        if self.size == "wide":  # heads that do and do not end at multiples of 64 columns
            self.d_k, self.d_v = self.count(2, 6) * 8, self.count(3, 32) * 2
        if self.rotates:
            self.d_k = 2 * max(2, self.d_k // 2)
        if self.has("W_qkv"):
            self.d_v = self.d_k
        self.d_model = self.count(d_model // 2, d_model)
        self.P = self.count(1, max(1, tokens[1] // 3)) if self.has("past") else 0

    # What the computation starts from.

    def make_start(self):
        given = [name for name in self.features if name.startswith("given_")]
        if given:
            self.make_given(given[0].removeprefix("given_"))
        elif self.has("packed_QKV", "split_qkv"):
            self.make_qkv(packed=self.has("packed_QKV"))
        else:
            self.make_projected()

    def make_projected(self):
        H, H_kv, d_k, d_v = self.H, self.H_kv, self.d_k, self.d_v
        if self.has("no_W_q"):
            self.d_model = H * d_k
        self.put("X", self.unbatched(self.numbers(self.B, self.T, self.d_model)))
        in_k = in_v = self.d_model
        if self.has("X_k_X_v"):
            in_k, in_v = self.count(2, self.d_model), self.count(2, self.d_model)
            self.put("X_k", self.unbatched(self.numbers(self.B, self.S, in_k)))
            self.put("X_v", self.unbatched(self.numbers(self.B, self.S, in_v)))
        elif self.has("X_kv"):
            in_k = in_v = self.count(2, self.d_model)
            self.put("X_kv", self.unbatched(self.numbers(self.B, self.S, in_k)))
        weights = {"q": self.weight(self.d_model, H * d_k), "k": self.weight(in_k, H_kv * d_k),
                   "v": self.weight(in_v, H_kv * d_v)}
        if self.has("no_W_q"):
            del weights["q"]
        biases = {name: self.numbers(W.shape[1]) for name, W in weights.items() if self.has("biases") and self.chance(0.8)}
        if self.has("W_qkv"):
            self.put_fused(weights, biases)
        else:
            for name, W in weights.items():
                self.put("W_" + name, self.per_head(W, H if name == "q" else H_kv))
            for name, b in biases.items():
                self.put("b_" + name, b)
        self.make_output()

    def per_head(self, W, heads):
        if not self.has("weights_per_head"):
            return W
        return np.ascontiguousarray(W.reshape(W.shape[0], heads, -1).transpose(1, 0, 2))

    def put_fused(self, weights, biases):
        """Any order of columns will do: each is a layer of its own."""
        orders = ["qkv", "qvk", "kqv", "kvq", "vqk", "vkq", "per_group"]
        self.set("qkv_order", orders[self.count(0, 6)])
        self.put("W_qkv", np.concatenate(list(weights.values()), axis=1))
        if biases:
            self.put("b_qkv", self.numbers(sum(W.shape[1] for W in weights.values())))

    def make_output(self):
        self.d_out = self.d_model if self.has("residual") else self.count(2, self.d_model)
        if self.has("no_W_o") and not self.has("residual"):
            return
        W = self.weight(self.H * self.d_v, self.d_out)
        self.put("W_o", W.reshape(self.H, self.d_v, self.d_out) if self.has("weights_per_head") else W)
        if self.has("biases"):
            self.put("b_o", self.numbers(self.d_out))

    def make_qkv(self, packed):
        for name, heads, tokens, width in (("q", self.H, self.T, self.d_k), ("k", self.H_kv, self.S, self.d_k),
                                           ("v", self.H_kv, self.S, self.d_v)):
            if packed:
                self.put(name.upper(), self.unbatched(self.numbers(self.B, tokens, heads * width)))
            else:
                self.put(name, self.unbatched(self.numbers(self.B, heads, tokens, width)))
        if self.has("residual"):
            self.put("X", self.unbatched(self.numbers(self.B, self.T, self.d_model)))
        self.make_output()

    def make_given(self, stage):
        """The whole layer with one stage bound, or only what comes after the stage."""
        if stage in ("q_norm", "k_rope", "k_all", "row_max", "scaled"):  # replaces a step of a whole layer
            self.make_projected()
            if stage == "q_norm":
                self.features.add("qk_norm")
            if stage == "k_rope":
                self.rotates = True
                self.d_k += self.d_k % 2
                self.features.add("rope_half")
                self.layer.tensors.clear()
                self.make_projected()
            self.layer.bound[stage] = stage  # once all keys are known
            return
        if stage not in ("concat", "head_out", "output"):
            self.put("v", self.unbatched(self.numbers(self.B, self.H_kv, self.S, self.d_v)))
        self.layer.bound[stage] = stage
        if stage == "output":
            self.d_out = self.d_model
            self.put("X", self.unbatched(self.numbers(self.B, self.T, self.d_model)))
            self.set("residual", True)
        else:
            self.make_output()
            if self.has("residual"):
                self.put("X", self.unbatched(self.numbers(self.B, self.T, self.d_model)))

    def given_array(self, stage):
        keys = self.all_keys
        shapes = {"q_norm": (self.H, self.T, self.d_k), "k_rope": (self.H_kv, self.S, self.d_k), "k_all": (self.H_kv, keys, self.d_k),
                  "row_max": (self.H, self.T), "head_out": (self.H, self.T, self.d_v), "concat": (self.T, self.H * self.d_v),
                  "output": (self.T, self.d_model)}
        array = self.numbers(self.B, *shapes.get(stage, (self.H, self.T, keys)))
        if stage == "exp":
            array = np.exp(array)
        if stage == "weights":
            array = np.exp(array) / np.exp(array).sum(axis=-1, keepdims=True)
        if stage in ("masked", "shifted"):
            array[self.rng.random(array.shape) < 0.3] = -np.inf
        return self.unbatched(array.astype(self.dtype))

    # Keys, masks, positions.

    def make_other_keys(self):
        if self.has("past"):
            for name, width in (("k_past", self.d_k), ("v_past", self.d_v)):
                self.put(name, self.unbatched(self.numbers(self.B, self.H_kv, self.P, width)))
        if self.has("extra_key"):
            self.put("k_extra", self.numbers(self.H_kv * self.d_k))
            self.put("v_extra", self.numbers(self.H_kv * self.d_v))
        if self.has("zero_attn"):
            self.set("zero_attn", True)
        if self.has("sinks"):
            self.put("sinks", self.numbers(self.H, size=2))
        self.keys = self.P + self.S
        self.all_keys = self.keys + self.has("extra_key") + self.has("zero_attn")
        self.layer.bound = {name: self.given_array(name) for name in self.layer.bound}

    def mask_shape(self):
        full = (self.B, self.H, self.T, self.keys if self.chance(0.5) else self.all_keys)
        if self.chance(0.2):
            return full[2:]
        return tuple(1 if self.chance(0.35) else n for n in full[:3]) + full[3:]

    def make_masks(self):
        if self.has("float_mask", "infinite_mask", "short_mask"):
            shape = self.mask_shape()
            if self.has("short_mask") and self.keys > 3:
                shape = shape[:-1] + (self.count(2, self.keys - 1),)
            mask = self.numbers(*shape)
            if self.has("infinite_mask"):
                mask[self.rng.random(shape) < 0.4] = -np.inf
            self.put("mask", mask)
        elif self.has("bool_mask"):
            self.put("mask", self.rng.random(self.mask_shape()) < 0.7)
        if self.has("block_mask"):
            blocked = self.rng.random(self.mask_shape()) < 0.4
            blocked[..., :: 7, :] |= self.chance(0.3)  # some rows see nothing
            self.put("block_mask", blocked)
        padding_keys = self.S if self.chance(0.5) else self.all_keys
        if self.has("key_padding_mask"):
            self.put("key_padding_mask", self.rng.random((self.B, padding_keys)) < 0.3)
        if self.has("attention_mask"):
            self.put("attention_mask", (self.rng.random((self.B, padding_keys)) < 0.7).astype(np.int64))
        if self.has("kv_lengths"):
            self.put("kv_lengths", self.rng.integers(0, self.keys + 1, self.B).astype(np.int32))
        if self.has("bias"):
            self.put("bias", self.numbers(*self.mask_shape()))

    def make_positions(self):
        for name in self.features:
            if name.startswith("alibi_"):
                self.set("alibi", name.removeprefix("alibi_"))
        if self.has("relative_bias", "relative_one_way"):
            both = not self.has("relative_one_way")
            self.put("relative_bias", self.numbers(self.count(2, 16) * (2 if both else 1), self.H))
            self.set("relative_bidirectional", both)
            self.set("relative_max_distance", self.count(18, 200))
        if self.has("causal", "causal_top_left", "causal_bottom_right"):
            self.set("causal", True)
        for align in ("top_left", "bottom_right"):
            if self.has("causal_" + align):
                self.set("causal_align", align)
        for side in ("window_left", "window_right"):
            if self.has(side):
                self.set(side, self.count(0, max(1, self.T // 2)))
        if self.rotates:
            self.make_rope()

    def make_rope(self):
        self.set("rope", "interleaved" if self.has("rope_interleaved") else "half")
        self.set("rope_base", 10000 if self.chance(0.5) else 100)
        if self.has("rope_dims"):
            self.set("rope_dims", 2 * self.count(1, self.d_k // 2))
        if self.has("rope_offset"):
            self.set("rope_offset", self.count(-10, 30))
        if self.has("positions") and not self.cross:
            self.put("positions", self.rng.integers(0, 900, self.T))
        if self.has("rope_linear"):
            self.layer.settings.update(rope_scaling="linear", rope_factor=4)
        elif self.has("rope_llama3"):
            self.layer.settings.update(rope_scaling="llama3", rope_factor=8, rope_low_freq_factor=1,
                                       rope_high_freq_factor=4, rope_original_length=100, rope_base=100)

    def make_settings(self):
        if {"W_q", "W_qkv", "Q", "q", "X"} & set(self.layer.tensors) or "concat" in self.layer.bound:
            self.set("num_heads", self.H)
        if self.H_kv != self.H:
            self.set("num_kv_heads", self.H_kv)
        for name, value in (("scale_number", 0.3), ("scale_none", "none"), ("scale_d_model", "d_model")):
            if self.has(name) and (value != "d_model" or "X" in self.layer.tensors):
                self.set("scale", value)
        if set(self.layer.bound) & {"scores"} and "scale" not in self.layer.settings:
            self.set("scale", 0.4)  # nothing says d_k
        if self.has("softcap"):
            self.set("softcap", 1.5)
        if self.has("naive"):
            self.set("softmax", "naive")
        for kind in ("nan", "uniform"):
            if self.has("masked_" + kind):
                self.set("masked_rows", kind)
        if self.has("residual"):
            self.set("residual", True)
        if "X" in self.layer.tensors and self.has("norm_layer", "norm_rms"):
            self.make_input_norm()
        if self.has("qk_norm", "qk_norm_whole", "qk_norm_one_plus"):
            whole = self.has("qk_norm_whole")
            self.put("q_norm.weight", 1 + self.numbers(self.H * self.d_k if whole else self.d_k, size=0.2))
            self.put("k_norm.weight", 1 + self.numbers(self.H_kv * self.d_k if whole else self.d_k, size=0.2))
            self.set("qk_norm_one_plus", self.has("qk_norm_one_plus"))

    def make_input_norm(self):
        self.set("input_norm", "rms" if self.has("norm_rms") else "layer")
        self.set("input_norm_eps", 1e-3)
        if self.chance(0.7):
            self.put("norm.weight", 1 + self.numbers(self.d_model, size=0.2))
        if not self.has("norm_rms") and self.chance(0.6):
            self.put("norm.bias", self.numbers(self.d_model))

    def selectable(self):
        """The lengths of the axes that rows can be chosen of."""
        return {"H": self.H, "T": self.T, "S": self.all_keys} | ({"B": self.B} if self.batched else {})

    # Unusual numbers, and how they lie.

    def spoil(self):
        """A number that is none, or sizes at the ends of float32, in one tensor of those that are computed from."""
        sources = [name for name in ("X", "X_v", "X_kv", "v", "V", "q", "W_v", "v_past") if name in self.layer.tensors]
        if not sources or not self.has("nan", "infinity", "huge", "tiny"):
            return
        array = self.layer.tensors[sources[self.count(0, len(sources) - 1)]]
        at = tuple(self.count(0, n - 1) for n in array.shape)
        array[at] = np.nan if self.has("nan") else np.inf if self.has("infinity") else 3e30 if self.has("huge") else 1e-40
        if self.has("tiny"):
            array[at[:-1]] *= self.dtype(1e-35)

    def turn_columns(self):
        if not self.has("columns"):
            return
        self.set("columns", True)
        turned = {"X", "X_kv", "X_k", "X_v", "W_q", "W_k", "W_v", "W_o", "W_qkv", "Q", "K", "V", "k_past", "v_past", "mask",
                  "block_mask", "bias", "q", "k", "v"}
        for name, array in self.layer.tensors.items():
            if name in turned and array.ndim >= 2:
                self.layer.tensors[name] = np.ascontiguousarray(array.swapaxes(-1, -2))
        for name, array in self.layer.bound.items():
            if name != "row_max":
                self.layer.bound[name] = np.ascontiguousarray(array.swapaxes(-1, -2))

    def round_to_half(self):
        if self.has("float16"):
            with np.errstate(over="ignore"):
                for name, array in self.layer.tensors.items():
                    if array.dtype.kind == "f":
                        self.layer.tensors[name] = array.astype(np.float16)
