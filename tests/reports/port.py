"""Attention as somebody would port it to NumPy: the right forward pass, a step a method.

Written from the papers and from what Transformers and llama.cpp are known to do, not from lib/. A
report of tests/reports/mistakes edits a few of its methods or numbers; what then comes out is what
the reported program computed. Shapes: x (B, T, d_model), q (B, H, T, d_k), k and v (B, H_kv, S, d),
scores (B, H, T, S).
"""
import math

import numpy as np


def to_bf16(x):
    """The nearest bfloat16, ties to even, as float32."""
    bits = np.ascontiguousarray(x, np.float32).view(np.uint32)
    rounded = ((bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF0000).astype(np.uint32).view(np.float32)
    return np.where(np.isfinite(x), rounded, x).astype(np.float32)


ROUND = {"f64": lambda x: np.asarray(x, np.float64), "f32": lambda x: np.asarray(x, np.float32),
         "f16": lambda x: np.asarray(x, np.float16).astype(np.float32), "bf16": to_bf16}


class Port:
    """tensors and settings are those of the layer file, under their names; compute is the type
    that every step is rounded to."""

    mask_value = -np.inf
    bias_heads = 1

    def __init__(self, tensors, settings, compute="f64"):
        self.round = ROUND[compute]
        self.wide = np.float64 if compute == "f64" else np.float32
        for name, value in tensors.items():
            tensor = np.asarray(value)
            if tensor.dtype.kind == "f":
                tensor = self.round(tensor)
            setattr(self, name.replace(".", "_"), tensor)
        self.settings = dict(settings)
        self.H = settings["num_heads"]
        self.H_kv = settings.get("num_kv_heads", self.H)
        if "W_qkv" in tensors:
            self.split_fused()
        self.d_k = self.W_q.shape[1] // self.H
        self.d_v = self.W_v.shape[1] // self.H_kv
        self.d_model = self.X.shape[-1]
        self.scale = settings.get("scale", 1 / math.sqrt(self.d_k))
        self.eps = settings.get("input_norm_eps", 1e-5)
        self.qk_eps = settings.get("qk_norm_eps", 1e-6)
        self.input_norm = settings.get("input_norm", "none")
        self.rope = settings.get("rope", "none")
        self.base = settings.get("rope_base", 10000.0)
        self.rotary_dims = settings.get("rope_dims", self.d_k)
        self.causal = settings.get("causal", False)
        self.from_first_key = settings.get("causal_align") == "top_left"
        self.window = settings.get("window_left", -1)
        self.softcap = settings.get("softcap", 0)
        self.alibi = settings.get("alibi", "none")
        self.residual = settings.get("residual", False)
        self.past = self.k_past.shape[-2] if self.has("k_past") else 0
        self.stages = {}

    def has(self, name):
        return getattr(self, name, None) is not None

    def split_fused(self):
        widths = [self.W_qkv.shape[1] // 3] * 3
        self.W_q, self.W_k, self.W_v = np.split(self.W_qkv, np.cumsum(widths)[:-1], axis=1)
        if self.has("b_qkv"):
            self.b_q, self.b_k, self.b_v = np.split(self.b_qkv, np.cumsum(widths)[:-1])

    # The steps ------------------------------------------------------------------------------

    def norm(self, x):
        if self.input_norm == "rms":
            return x / np.sqrt((x * x).mean(-1, keepdims=True) + self.eps) * self.norm_weight
        if self.input_norm == "layer":
            x = x - x.mean(-1, keepdims=True)
            y = x / np.sqrt((x * x).mean(-1, keepdims=True) + self.eps) * self.norm_weight
            return y + self.norm_bias if self.has("norm_bias") else y
        return x

    def project(self, x, letter):
        y = x @ getattr(self, "W_" + letter)
        return y + getattr(self, "b_" + letter) if self.has("b_" + letter) else y

    def split(self, x, heads, letter):
        B, T, width = x.shape
        return x.reshape(B, T, heads, width // heads).transpose(0, 2, 1, 3)

    def norm_heads(self, x, weight):
        return x / np.sqrt((x * x).mean(-1, keepdims=True) + self.qk_eps) * weight

    def frequencies(self):
        n = self.rotary_dims
        return self.scaled_frequencies(self.base ** (-np.arange(0, n, 2, dtype=np.float64) / n))

    def scaled_frequencies(self, frequency):
        s = self.settings
        if s.get("rope_scaling") == "linear":
            return frequency / s["rope_factor"]
        if s.get("rope_scaling") == "llama3":
            length, low, high = (s["rope_" + n] for n in ("original_length", "low_freq_factor", "high_freq_factor"))
            turns = length * frequency / (2 * np.pi)
            blend = np.clip((turns - low) / (high - low), 0, 1)
            return frequency * (blend + (1 - blend) / s["rope_factor"])
        return frequency

    def positions(self, letter):
        return self.past + np.arange(self.X.shape[-2], dtype=np.float64)

    def rotate(self, x, angles):
        """angles (T, n / 2) of the first n dimensions"""
        n = 2 * angles.shape[-1]
        cos, sin = self.round(np.cos(angles)), self.round(np.sin(angles))
        first, second = ((slice(0, n, 2), slice(1, n, 2)) if self.rope == "interleaved"
                         else (slice(0, n // 2), slice(n // 2, n)))
        a, b, y = x[..., first], x[..., second], x.copy()
        y[..., first] = self.round(self.round(a * cos) - self.round(b * sin))
        y[..., second] = self.round(self.round(a * sin) + self.round(b * cos))
        return y

    def angles(self, letter):
        return np.outer(self.positions(letter), self.frequencies())

    def repeat(self, kv):
        return np.repeat(kv, self.H // self.H_kv, axis=1)

    def score(self, q, k):
        return q @ k.swapaxes(-1, -2)

    def cap(self, scores):
        return self.softcap * np.tanh(scores / self.softcap)

    def slopes(self):
        n = 2 ** math.floor(math.log2(self.H))
        slopes = [2 ** (-8 * (i + 1) / n) for i in range(n)]
        return np.array(slopes + [2 ** (-4 * (2 * i + 1) / n) for i in range(self.H - n)])

    def distances(self, T, S):
        """key position minus query position"""
        first = 0 if self.from_first_key else S - T
        return np.arange(S)[None, :] - (np.arange(T) + first)[:, None]

    def position_bias(self, T, S):
        if self.alibi != "none":
            return self.slopes()[:, None, None] * self.distances(T, S)
        return self.bias if self.has("bias") else None

    def visible(self, T, S):
        """where a query may attend, (B or 1, H or 1, T, S)"""
        distance = self.distances(T, S)
        seen = np.ones((1, 1, T, S), bool)
        if self.causal:
            seen = seen & (distance <= 0)
        if self.window >= 0:
            seen = seen & (distance >= -self.window)
        if self.has("key_padding_mask"):
            seen = seen & ~self.key_padding_mask[:, None, None, :]
        if self.has("mask"):
            seen = seen & self.mask
        return seen

    def apply_mask(self, scores):
        seen = self.visible(*scores.shape[-2:])
        return np.where(seen, scores, self.mask_value)

    def softmax(self, scores):
        largest = scores.max(-1, keepdims=True)
        e = np.exp(scores - np.where(np.isfinite(largest), largest, 0))
        total = e.sum(-1, keepdims=True)
        if self.has("sinks"):
            total = total + np.exp(self.sinks[:, None, None] - largest)
        return e / np.where(total == 0, 1, total)

    def after_softmax(self, weights):
        return weights

    def combine(self, weights, v):
        return weights @ v

    def merge(self, z):
        B, H, T, d = z.shape
        return z.transpose(0, 2, 1, 3).reshape(B, T, H * d)

    def project_out(self, y):
        return self.project(y, "o")

    def add_residual(self, x, y):
        return x + y

    # The pass -------------------------------------------------------------------------------

    def keep(self, stage, value):
        self.stages[stage] = self.round(value).astype(self.wide)
        return self.stages[stage]

    def forward(self):
        with np.errstate(all="ignore"):
            return self.attention()

    def attention(self):
        X = self.X if self.X.ndim == 3 else self.X[None]
        x = self.keep("x", self.norm(X))
        source = x if not self.has("X_kv") else (self.X_kv if self.X_kv.ndim == 3 else self.X_kv[None])
        q = self.keep("q", self.split(self.project(x, "q"), self.H, "q"))
        k = self.keep("k", self.split(self.project(source, "k"), self.H_kv, "k"))
        v = self.keep("v", self.split(self.project(source, "v"), self.H_kv, "v"))
        q, k = self.prepare(q, k)
        if self.past:
            k = self.keep("k_all", np.concatenate([self.past_of("k"), k], axis=2))
            v = self.keep("v_all", np.concatenate([self.past_of("v"), v], axis=2))
        weights = self.attend(q, self.repeat(k))
        z = self.keep("head_out", self.combine(weights, self.repeat(v)))
        y = self.keep("concat", self.merge(z))
        y = self.keep("output", self.project_out(y)) if self.has("W_o") else y
        if self.residual:
            self.keep("residual", self.add_residual(X, y))
        return self.stages

    def past_of(self, letter):
        past = getattr(self, letter + "_past")
        return past if past.ndim == 4 else past[None]

    def prepare(self, q, k):
        if self.has("q_norm_weight"):
            q = self.keep("q_norm", self.norm_heads(q, self.q_norm_weight))
            k = self.keep("k_norm", self.norm_heads(k, self.k_norm_weight))
        if self.rope != "none":
            q = self.keep("q_rope", self.rotate(q, self.angles("q")))
            k = self.keep("k_rope", self.rotate(k, self.angles("k")))
        return q, k

    def attend(self, q, k):
        scores = self.keep("scores", self.score(q, k))
        scores = self.keep("scaled", scores * self.scale)
        if self.softcap:
            scores = self.keep("capped", self.cap(scores))
        bias = self.position_bias(*scores.shape[-2:])
        if bias is not None:
            scores = self.keep("biased", scores + bias)
        scores = self.keep("masked", self.apply_mask(scores))
        return self.keep("weights", self.after_softmax(self.softmax(scores)))
