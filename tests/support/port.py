"""GPT-2, LLaMA and BERT in NumPy, with one mistake planted: what another implementation saves.

port.py MODEL IDS MISTAKES FOLDER [DTYPE] writes MISTAKE-all.npz (every stage, as layers.N.STAGE),
MISTAKE-states.npz (hidden_states) and MISTAKE-logits.npz for each of the MISTAKES (none, or what is_
asks for; several at once: a plus
between), commas between. Shares no code with the library.
"""
import json
import math
import struct
import sys

import numpy as np

erf = np.vectorize(math.erf)


def read(folder):
    with open(folder + "/model.safetensors", "rb") as file:
        header = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
        data = file.read()
    kinds = {"F16": np.float16, "F32": np.float32, "F64": np.float64}
    return {name: np.frombuffer(data[slice(*one["data_offsets"])], kinds[one["dtype"]])
            .reshape(one["shape"]).astype(np.float64)
            for name, one in header.items() if name != "__metadata__"}


def gelu_tanh(x):
    return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x ** 3)))


FORMS = {"gelu": lambda x: 0.5 * x * (1 + erf(x / math.sqrt(2))), "gelu_tanh": gelu_tanh,
         "silu": lambda x: x / (1 + np.exp(-x)), "relu": lambda x: np.maximum(x, 0),
         "quick": lambda x: x / (1 + np.exp(-1.702 * x)), "identity": lambda x: x,
         "swish": lambda x: x / (1 + np.exp(-1.5 * x)), "relu2": lambda x: np.maximum(x, 0) ** 2}


class Port:
    def __init__(self, folder, mistake):
        self.w, self.mistake = read(folder), mistake
        self.kind = folder.rstrip("/").rsplit("-", 1)[1]
        self.eps = {"gpt2": 1e-5, "llama": 1e-5, "bert": 1e-12}[self.kind]
        self.act = {"gpt2": "gelu_tanh", "llama": "silu", "bert": "gelu"}[self.kind]
        for one in mistake.split("+"):
            if one.startswith("act:"):
                self.act = one[4:]
        with open(folder + "/config.json") as file:
            config = json.load(file)
        self.H = config.get("n_head") or config["num_attention_heads"]
        self.H_kv = config.get("num_key_value_heads", self.H)
        self.layers = config.get("n_layer") or config["num_hidden_layers"]
        self.saved = {}
        self.spread_over_ranks()

    def outputs(self, name, order):
        """The outputs of a product in another order, or some of them again."""
        w, turned = self.w, self.kind != "gpt2"
        w[name + ".weight"] = w[name + ".weight"][order] if turned else w[name + ".weight"][:, order]
        if name + ".bias" in w:
            w[name + ".bias"] = w[name + ".bias"][order]

    def inputs(self, name, edit):
        """edit(rows of inputs) of a product's weight."""
        turned, w = self.kind != "gpt2", self.w[name + ".weight"]
        self.w[name + ".weight"] = edit(w.T.copy()).T if turned else edit(w.copy())

    def spread_over_ranks(self):
        """Weights as tensor parallel code joins, cuts or loads them wrongly."""
        reverse = lambda n, ranks: np.concatenate(np.split(np.arange(n), ranks)[::-1])
        def rank_0(w):
            w[len(w) // 2:] = 0
            return w
        d = self.w["transformer.wte.weight" if self.kind == "gpt2" else "bert.embeddings.word_embeddings.weight"
                   if self.kind == "bert" else "model.embed_tokens.weight"].shape[1]
        for n in range(self.layers):
            at = {"gpt2": f"transformer.h.{n}.", "llama": f"model.layers.{n}.", "bert": ""}[self.kind]
            if not at:
                return
            o, down, up = ((at + "attn.c_proj", at + "mlp.c_proj", [at + "mlp.c_fc"]) if self.kind == "gpt2" else
                           (at + "self_attn.o_proj", at + "mlp.down_proj", [at + "mlp.gate_proj", at + "mlp.up_proj"]))
            if self.is_("weight.shards.o"):
                self.inputs(o, lambda w: w[reverse(len(w), 3)])
            if self.is_("weight.shards.o.rank"):
                self.inputs(o, rank_0)
            if self.is_("mlp.shards"):
                self.inputs(down, lambda w: w[reverse(len(w), 2)])
            if self.is_("mlp.shards.rank"):
                self.inputs(o, rank_0), self.inputs(down, rank_0)
            if self.is_("mlp.shards.first"):
                for name in up:
                    m = len(self.w[name + ".weight"]) if self.kind == "llama" else self.w[name + ".weight"].shape[1]
                    self.outputs(name, np.tile(np.arange(m // 2), 2))
            for i, letter in enumerate("qkv"):
                if self.is_("weight.shards." + letter):
                    if self.kind == "llama":
                        name = f"{at}self_attn.{letter}_proj"
                        self.outputs(name, reverse(len(self.w[name + ".weight"]), 2))
                    else:
                        order = np.arange(3 * d)
                        order[i * d:(i + 1) * d] = i * d + reverse(d, 2)
                        self.outputs(at + "attn.c_attn", order)
            if self.kind == "gpt2":
                ranks, part = 3, d // 3
                if self.is_("weight.shards"):  # [q k v] of each rank, joined as they are
                    self.outputs(at + "attn.c_attn", np.concatenate(
                        [i * d + r * part + np.arange(part) for r in range(ranks) for i in range(3)]))
                if self.is_("weight.shards.values"):  # the same of [q v k]
                    self.outputs(at + "attn.c_attn", np.concatenate(
                        [i * d + r * part + np.arange(part) for r in range(ranks) for i in (0, 2, 1)]))
                if self.is_("weight.shards.cut"):  # cut in equal parts, each read as [q k v]
                    order = [r * d + i * part + np.arange(part) for i in range(3) for r in range(ranks)]
                    self.outputs(at + "attn.c_attn", np.concatenate(order))
            elif self.is_("weight.shards"):  # the first rank's part in both ranks
                for letter in "qkv":
                    name = f"{at}self_attn.{letter}_proj"
                    self.outputs(name, np.tile(np.arange(len(self.w[name + ".weight"]) // 2), 2))

    def is_(self, mistake):
        return mistake in self.mistake.split("+")

    def norm(self, x, name, where=""):
        w, b = self.w[name + ".weight"], self.w.get(name + ".bias", 0)
        eps = self.eps
        if self.is_(where + ".missing"):
            return x
        if self.is_(where + ".twice"):
            self.mistake = "none"
            once = self.norm(x, name)
            self.mistake = where + ".twice"
            return self.norm(once, name)
        if self.is_(where + ".eps"):
            eps = 1e-2
        if self.is_(where + ".one_plus"):
            w = 1 + w
        if self.is_(where + ".weight"):
            w = np.ones_like(w)
        if self.is_(where + ".bias"):
            b = 0
        rms = (self.kind == "llama") != self.is_(where + ".kind")
        if self.kind != "llama" and rms:
            b = 0
        mean = x.mean(-1, keepdims=True)
        if not rms:
            x = x - mean
        mean_square = (x * x).mean(-1, keepdims=True)
        if self.is_(where + ".form") or self.is_("norms.form") and where in ("input_norm", "block_norm"):
            mean_square = mean_square * x.shape[-1] / (x.shape[-1] - 1)
        if self.is_(where + ".not_centred"):  # a LayerNorm that forgets the mean and keeps the bias
            return (x + mean) / np.sqrt(((x + mean) ** 2).mean(-1, keepdims=True) + eps) * w + b
        y = x / np.sqrt(mean_square + eps) * w + b
        rounds = self.is_("block_norm.rounded") and where in ("input_norm", "block_norm")
        return y.astype(np.float16).astype(np.float64) if rounds else y

    def linear(self, x, name):
        w, b = self.w[name + ".weight"], self.w.get(name + ".bias")
        if self.kind != "gpt2" or "lm_head" in name:
            w = w.T
        y = x @ w
        return y if b is None else y + b

    def heads(self, x, n):
        return x.reshape(len(x), n, -1).transpose(1, 0, 2)

    def rotate(self, x):
        T, d = x.shape[1:]
        angle = np.arange(T)[:, None] * 10000.0 ** (-np.arange(0, d, 2) / d)
        c, s = np.cos(angle), np.sin(angle)
        a, b = x[..., :d // 2], x[..., d // 2:]
        return np.concatenate([a * c - b * s, b * c + a * s], -1)

    def seen(self, T):
        """Which keys a query sees: a text in pieces, with a cache that is not read as it should be."""
        query, key = np.arange(T)[:, None], np.arange(T)
        see = key <= query
        if self.is_("chunks.own"):
            see = see & (key // 2 == query // 2)
        if self.is_("chunks.corner"):
            see = key <= query % 3
        if self.is_("chunks.second"):
            see = see & ((query < 2) | (key >= 2))
        if self.is_("cache.alone"):
            see = np.where(query < 4, see, key == query)
        if self.is_("cache.first"):
            see = np.where(query < 4, see, key == 0)
        if self.is_("cache.late"):
            see = see & ((query < 3) | (key != query))
        return see | (key < 4) if self.is_("prefix") else see

    def attention(self, x, n, save):
        if self.kind == "gpt2":
            q, k, v = np.split(self.linear(x, f"transformer.h.{n}.attn.c_attn"), 3, -1)
        else:
            at = (f"model.layers.{n}.self_attn.%s_proj" if self.kind == "llama" else
                  f"bert.encoder.layer.{n}.attention.self.%s")
            names = "qkv" if self.kind == "llama" else ["query", "key", "value"]
            q, k, v = (self.linear(x, at % name) for name in names)
            if self.is_("weight.rows"):  # pairs beside each other, as GGUF has them
                d = q.shape[1] // self.H
                q, k = (y.reshape(len(y), -1, 2, d // 2).swapaxes(2, 3).reshape(y.shape) for y in (q, k))
        q, k, v = self.heads(q, self.H), self.heads(k, self.H_kv), self.heads(v, self.H_kv)
        if self.is_("buffer.q"):
            q = k
        if self.is_("buffer.k"):
            k = v
        if self.is_("buffer.row"):
            q = np.repeat(q[:, -1:], q.shape[1], 1)
        late = lambda y: np.concatenate([y[:, :1], y[:, :-1]], 1)
        if self.is_("buffer.late") and self.kind != "llama":
            k = late(k)
        if self.is_("buffer.late"):
            v = late(v)
        if self.is_("buffer.v"):
            v = self.rotate(k) if self.kind == "llama" else k
        if self.is_("multiplied"):
            v = 0.5 * v
        save(q=q, k=k, v=v)
        if self.kind == "llama":
            q, k = self.rotate(q), self.rotate(k)
            k = self.rotate(k) if self.is_("rope.twice.k") else late(k) if self.is_("buffer.late") else k
            save(q_rope=q, k_rope=k)
        k, v = (np.repeat(one, self.H // self.H_kv, 0) for one in (k, v))
        scores = q @ k.transpose(0, 2, 1)
        if not self.is_("scale"):
            scores = scores / math.sqrt(q.shape[-1])
        if self.kind != "bert":
            scores = np.where(self.seen(scores.shape[1]), scores, -np.inf)
        e = np.exp(scores - scores.max(-1, keepdims=True))
        weights = e / e.sum(-1, keepdims=True)
        if self.is_("buffer.weights"):
            weights = np.repeat(weights[-1:], len(weights), 0)
        z = weights @ v
        save(weights=weights, head_out=z)
        name = {"gpt2": f"transformer.h.{n}.attn.c_proj", "llama": f"model.layers.{n}.self_attn.o_proj",
                "bert": f"bert.encoder.layer.{n}.attention.output.dense"}[self.kind]
        y = self.linear(z.transpose(1, 0, 2).reshape(x.shape[0], -1), name)
        if self.is_("dropout.output"):
            y = y * (np.random.default_rng(n).random(y.shape) >= 0.1) / 0.9
        return y + self.w[name + ".bias"] if self.is_("bias.times.o") else y

    def rounded(self, x):
        return x.astype(np.float16).astype(np.float64) if self.is_("mlp.rounded") else x

    def feed_forward(self, x, n, save):
        act = FORMS[self.act]
        if self.kind == "llama":
            at = f"model.layers.{n}.mlp."
            gate, up = self.w[at + "gate_proj.weight"], self.w[at + "up_proj.weight"]
            fused = np.concatenate([gate, up])
            if self.is_("mlp.swapped"):
                gate, up = up, gate
            if self.is_("mlp.interleaved"):
                gate, up = fused[0::2], fused[1::2]
            if self.is_("mlp.sharded"):
                a, b, c, d = np.split(fused, 4)
                gate, up = np.concatenate([a, c]), np.concatenate([b, d])
            pre, other = x @ gate.T, x @ up.T
            y = act(pre) * other
            if self.is_("mlp.activated_other"):
                y = pre * act(other)
            if self.is_("mlp.gate.missing"):
                y = act(pre)
            if self.is_("mlp.gate.same"):
                y = act(pre) * pre
            if self.is_("mlp.gate.both"):
                y = act(pre) * act(other)
            if self.is_("mlp.gate.added"):
                y = act(pre) + other
            if self.is_("mlp.gate.plus_one"):
                y = act(pre) * (other + 1)
            if self.is_("mlp.gate.oss"):
                y = FORMS["quick"](pre) * (other + 1)
            save(mlp_pre=pre, mlp_up=other, mlp_act=y)
            y = self.rounded(y)
            if self.is_("mlp.transposed"):
                return y @ self.w[at + "down_proj.weight"].reshape(y.shape[1], -1)
            return self.linear(y, at + "down_proj")
        first, second = ((f"transformer.h.{n}.mlp.c_fc", f"transformer.h.{n}.mlp.c_proj")
                         if self.kind == "gpt2" else
                         (f"bert.encoder.layer.{n}.intermediate.dense", f"bert.encoder.layer.{n}.output.dense"))
        pre = self.linear(x, first)
        if self.is_("mlp.bias.missing"):
            pre = pre - self.w[first + ".bias"]
        y = act(pre)
        save(mlp_pre=pre, mlp_act=y)
        y = self.linear(self.rounded(y), second)
        return y + 3 * self.w[second + ".bias"] if self.is_("mlp.bias.times") else y

    def block(self, x, n, save):
        if self.is_("block.skipped") and n == 2:
            save(resid_pre=x, resid_post=x)
            return x
        own = 1 if self.is_("block.weights.other") and n == 2 else n
        save(resid_pre=x)
        if self.kind == "gpt2" and self.is_("block_norm.place"):
            at = f"transformer.h.{own}."
            a = self.attention(x, own, save)
            h = self.norm(x + a, at + "ln_1")
            f = self.feed_forward(h, own, save)
            y = self.norm(h + f, at + "ln_2")
            save(x=x, output=a, residual=x + a, mlp_x=h, mlp_out=f, resid_post=y)
            return y
        if self.kind == "bert" and self.is_("block_norm.place"):
            at = f"bert.encoder.layer.{own}."
            h = self.norm(x, at + "attention.output.LayerNorm")
            a = self.attention(h, own, save)
            m = self.norm(x + a, at + "output.LayerNorm")
            f = self.feed_forward(m, own, save)
            save(x=h, output=a, residual=x + a, mlp_x=m, mlp_out=f, resid_post=x + a + f)
            return x + a + f
        if self.kind == "bert":
            at = f"bert.encoder.layer.{own}."
            a = self.attention(x, own, save)
            r = x + a
            h = self.norm(r, at + "attention.output.LayerNorm", "block_norm")
            f = self.feed_forward(h, own, save)
            y = self.norm(h + f, at + "output.LayerNorm")
            save(x=x, output=a, residual=r, mlp_x=h, mlp_out=f, resid_post=y)
            return y
        first, second = ((f"transformer.h.{own}.ln_1", f"transformer.h.{own}.ln_2") if self.kind == "gpt2"
                         else (f"model.layers.{own}.input_layernorm",
                               f"model.layers.{own}.post_attention_layernorm"))
        if self.is_("block_norm.other"):
            first, second = second, first
        h = self.norm(x, first, "input_norm")
        a = self.attention(h, own, save)
        late_a, self.late_a = getattr(self, "late_a", a), a
        r = (h if self.is_("block.residual.normalised") else x) + \
            (late_a if self.is_("block.attention.previous") else a)
        if self.is_("block.residual.missing"):
            r = a
        if self.is_("block.attention.missing"):
            r = x
        m = self.norm(x if self.is_("block.parallel") else r, second, "block_norm")
        f = self.feed_forward(m, own, save)
        late_f, self.late_f = getattr(self, "late_f", f), f
        y = (x if self.is_("block.residual.original") else r) + \
            (late_f if self.is_("block.mlp.previous") else f)
        if self.is_("mlp.missing"):
            f, y = 0 * f, r
        if self.is_("block.residual.twice"):
            y = x + y
        if self.is_("block.residual.scaled"):  # Granite's residual_multiplier
            r = x + 0.22 * a
            m = self.norm(r, second)
            f = self.feed_forward(m, own, save)
            y = r + 0.22 * f
        if self.is_("block.residual.attention_scaled"):
            r = x + 0.7 * a
            m = self.norm(r, second)
            f = self.feed_forward(m, own, save)
            y = r + f
        if self.is_("block.residual.both_normalised"):  # x = norm(x); x += f(x)
            r = h + a
            m = self.norm(r, second)
            f = self.feed_forward(m, own, save)
            y = m + f
        if self.is_("block.residual.sums"):
            r = (x + a) / math.sqrt(2)
            m = self.norm(r, second)
            f = self.feed_forward(m, own, save)
            y = (r + f) / math.sqrt(2)
        if self.is_("block.residual.stream"):
            r = 0.5 * x + a
            m = self.norm(r, second)
            f = self.feed_forward(m, own, save)
            y = 0.5 * r + f
        if self.is_("block.residual.attention_twice"):
            y = y + a
        if self.is_("block_norm.place.results"):
            a = self.norm(self.attention(x, own, save), first)
            r = x + a
            f = self.feed_forward(r, own, save)
            y = r + self.norm(f, second)
            save(x=x, mlp_x=r, mlp_out=f, residual=r, resid_post=y)
            return y
        if self.is_("block_norm.place.one"):
            f = self.feed_forward(r, own, save)
            y = self.norm(r + f, second)
            save(x=h, output=a, residual=r, mlp_x=r, mlp_out=f, resid_post=y)
            return y
        if self.is_("norms.missing"):
            a = self.attention(x, own, save)
            r = x + a
            f = self.feed_forward(r, own, save)
            save(x=x, output=a, residual=r, mlp_x=r, mlp_out=f, resid_post=r + f)
            return r + f
        if self.is_("block.mlp.input"):  # the buffer of attention's input is read again
            m = h
            f = self.feed_forward(m, own, save)
            y = r + f
        if self.is_("block.mlp.input.result"):
            m = self.norm(a, second)
            f = self.feed_forward(m, own, save)
            y = r + f
        if self.is_("block.residual.apart"):
            y = f
        if self.is_("block.handed.residual"):
            y = r
        save(x=h, output=a, mlp_x=m, mlp_out=f, resid_post=y)
        if not self.is_("block.parallel"):
            save(residual=r)
        return y

    def embed(self, ids):
        prefix = {"gpt2": "transformer.wte", "llama": "model.embed_tokens",
                  "bert": "bert.embeddings.word_embeddings"}[self.kind]
        e = self.w[prefix + ".weight"][ids]
        if self.is_("embed.scale"):
            e = e * math.sqrt(e.shape[1])
        if self.is_("embed.scale.twelve"):
            e = e * 12
        if self.is_("embed.shards"):
            e = e * (np.array(ids) < len(self.w[prefix + ".weight"]) // 4)[:, None]
        if self.kind == "llama":
            return e
        table = self.w[{"gpt2": "transformer.wpe", "bert": "bert.embeddings.position_embeddings"}[self.kind]
                       + ".weight"]
        if self.is_("embed.norm.place"):
            return self.norm(e, "bert.embeddings.LayerNorm") + table[:len(ids)] + \
                self.w["bert.embeddings.token_type_embeddings.weight"][0]
        first = 2 if self.is_("embed.positions.offset") else 0
        rows = table[first:first + len(ids)]
        if self.is_("embed.positions.same"):
            rows = table[[0] * len(ids)]
        if not self.is_("embed.positions.missing"):
            e = e + rows * (2 if self.is_("embed.positions.twice") else 1)
        if self.kind == "gpt2":
            return e
        if not self.is_("embed.types"):
            e = e + self.w["bert.embeddings.token_type_embeddings.weight"][0]
        if self.is_("embed.norm.other"):
            return self.norm(e, "bert.encoder.layer.0.attention.output.LayerNorm")
        return self.norm(e, "bert.embeddings.LayerNorm", "embed.norm")

    def run(self, ids):
        x = self.embed(ids)
        if self.is_("dropout.embed"):
            x = x * (np.random.default_rng(1).random(x.shape) >= 0.1) / 0.9
        out = {"embed": x}
        states = [x]
        for n in range(self.layers):
            def save(**stages):
                for name, value in stages.items():
                    out[f"layers.{n}.{name}"] = value
            x = self.block(x, n, save)
            if self.is_("block.twice") and n == 2:
                x = self.block(x, n, save)
            states.append(x)
        if self.kind == "bert":
            form = FORMS["relu" if self.is_("head.activation") else "gelu"]
            h = self.norm(form(self.linear(x, "cls.predictions.transform.dense")),
                          "cls.predictions.transform.LayerNorm")
            if self.is_("head.dense"):
                h = x
            if self.is_("head.norm"):
                h = form(self.linear(x, "cls.predictions.transform.dense"))
            out["logits"] = h @ self.w["bert.embeddings.word_embeddings.weight"].T
            if not self.is_("head.bias"):
                times = 2 if self.is_("head.bias.twice") else 1
                out["logits"] = out["logits"] + times * self.w["cls.predictions.bias"]
        else:
            last = {"gpt2": "transformer.ln_f", "llama": "model.norm"}[self.kind]
            if self.is_("last_norm.first"):
                last = {"gpt2": "transformer.h.0.ln_1", "llama": "model.layers.0.input_layernorm"}[self.kind]
            if self.is_("last_norm.other"):
                last = {"gpt2": "transformer.h.3.ln_2", "llama": "model.layers.3.input_layernorm"}[self.kind]
            h = self.norm(x, last, "last_norm")
            head = self.w["transformer.wte.weight" if self.kind == "gpt2" else "lm_head.weight"]
            if self.is_("head.tied"):
                head = self.w["model.embed_tokens.weight"]
            out["final"], out["logits"] = h, (x if self.is_("head.norm.missing") else h) @ head.T
            if self.is_("head.input"):
                out["logits"] = self.norm(states[0], last) @ head.T
            if self.is_("head.scale"):
                out["logits"] = out["logits"] / math.sqrt(x.shape[1])
            if self.is_("head.softcap"):
                out["logits"] = 30 * np.tanh(out["logits"] / 30)
            states[-1] = h
        if self.is_("head.softmax"):
            e = np.exp(out["logits"] - out["logits"].max(-1, keepdims=True))
            out["logits"] = e / e.sum(-1, keepdims=True)
        if self.is_("head.shards"):
            out["logits"] = np.concatenate(np.split(out["logits"], 2, -1)[::-1], -1)
        if self.is_("head.row"):
            out["logits"] = np.repeat(out["logits"][-1:], len(ids), 0)
        if self.is_("head.rows"):
            out["logits"] = np.concatenate([0 * out["logits"][:1], out["logits"][:-1]])
        if self.is_("head.columns"):
            out["logits"] = np.roll(out["logits"], 1, -1)
        if self.is_("head.repetition"):
            y, seen = out["logits"], np.unique(ids)
            y[:, seen] = np.where(y[:, seen] > 0, y[:, seen] / 1.1, y[:, seen] * 1.1)
        if self.is_("head.centred"):
            out["logits"] = out["logits"] - out["logits"].mean(-1, keepdims=True)
        out["hidden_states"] = np.stack(states)[:, None]
        return out


def main(folder, ids, mistakes, to, dtype="float32"):
    for mistake in mistakes.split(","):
        out = Port(folder, mistake).run([int(one) for one in ids.split(",")])
        captures = {"states": ["hidden_states"], "logits": ["logits"],
                    "all": [name for name in out if name != "hidden_states"]}
        for capture, names in captures.items():
            np.savez(f"{to}/{mistake}-{capture}.npz", **{name: out[name].astype(dtype) for name in names})


main(*sys.argv[1:])
