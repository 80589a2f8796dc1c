#!/usr/bin/env python3
"""Right ports under the names of many tools and in four precisions: nothing may be blamed or dropped.

    /usr/bin/python3 tests/models/clean.py PROGRAM MODELS [--texts N] [--model NAME] [--naming NAME] [-j N]

MODELS is a folder that make.py wrote. A port rounds every stage to its precision as it goes; what it
saves is named as a tool names it. `diff` must find every layer equal or close and `diagnose` nothing
to explain, and nothing may be left uncompared. Exit code 1 where one is not so.
"""
import argparse
import concurrent.futures
import json
import os
import subprocess
import sys
import tempfile

import numpy as np

import forward
from forward import Trace
from mistakes import to_bfloat16
from write import load

ROUND = {"f64": lambda x: x, "f32": lambda x: np.float64(np.float32(x)), "f16": lambda x: np.float64(np.float16(np.clip(x, -65504, 65504))),
         "bf16": lambda x: np.where(np.isfinite(x), to_bfloat16(np.where(np.isfinite(x), x, 0)), x)}
SAVED = {"f64": np.float64, "f32": np.float32, "f16": np.float16, "bf16": np.float32}


class RoundingTrace(Trace):
    """Every stage is kept in the port's precision, and what follows is computed from that."""
    precision = "f64"

    def __call__(self, stage, value):
        # Softmax runs in float32 in all that are known, and scores are not kept; experts are whole numbers.
        value = value if stage in ("scores", "scaled", "capped", "biased", "masked", "experts") else ROUND[self.precision](value)
        return super().__call__(stage, value)


def run(model, ids, precision):
    kind = type("Rounding", (RoundingTrace,), {"precision": precision})
    original, forward.Trace = forward.Trace, kind
    try:
        stages = forward.run(model, np.array(ids))
    finally:
        forward.Trace = original
    return {n: v for n, v in stages.items() if n not in ("loss", "perplexity") and not n.endswith("head_result")}


def merged(x):
    """H, T, d -> T, H·d"""
    return x.transpose(1, 0, 2).reshape(x.shape[1], -1)


class Saver:
    """What a tool saves of one text, by its own names."""

    def __init__(self, stages, model):
        self.s, self.n, self.model = stages, len(model.blocks), model
        self.shape = model.blocks[0].shape
        self.gated = getattr(model.blocks[0].feed_forward, "up", None) is not None

    def has(self, stage):
        return f"layers.0.{stage}" in self.s

    def of(self, n, stage):
        return self.s[f"layers.{n}.{stage}"]

    def ends(self, **names):
        return {name: self.s[stage] for stage, name in names.items() if stage in self.s}

    def layers(self, pattern, **names):
        out = {}
        for n in range(self.n):
            for stage, name in names.items():
                if self.has(stage):
                    value = self.of(n, stage)
                    if stage in ("q", "k", "v", "q_rope", "k_rope") and "merged" in pattern:
                        value = merged(value)
                    out[pattern["at"].format(n=n, name=name)] = value
        return out

    # The namings ------------------------------------------------------------------------------

    def canonical(self):
        return dict(self.s)

    def states(self):
        last = self.s.get("final", self.of(self.n - 1, "resid_post"))
        stack = np.stack([self.of(n, "resid_pre") for n in range(self.n)] + [last])[:, None]
        return {"hidden_states": stack, "attentions": np.stack([self.of(n, "weights") for n in range(self.n)])[:, None]} | \
            self.ends(logits="logits")

    def numbered_states(self):
        s = self.states()
        return {f"hidden_states.{i}": v for i, v in enumerate(s["hidden_states"])} | \
            {f"attentions.{i}": v for i, v in enumerate(s["attentions"])} | self.ends(logits="logits")

    def llama_cpp(self):
        """Nodes of the graph of a LLaMA; the last token's rows alone at the end."""
        if self.shape not in ("pre", "sandwich", "parallel"):
            return None
        out = {}
        for n in range(self.n):
            take = lambda name, stage: out.update({f"{name}-{n}": self.of(n, stage)}) if self.has(stage) else None
            take("attn_norm", "x")
            for letter in "QKV":
                out[f"{letter}cur-{n}"] = self.of(n, letter.lower()).transpose(1, 0, 2)
            take("kq_soft_max", "weights"), take("kqv_out", "concat"), take("attn_out", "output")
            take("attn_post_norm", "attn_add"), take("ffn_inp", "residual"), take("ffn_norm", "mlp_x")
            take("ffn_gate" if self.gated else "ffn_up", "mlp_pre"), take("ffn_up", "mlp_up")
            take("ffn_gate_par" if self.gated else "ffn_act", "mlp_act"), take("ffn_out", "mlp_out")
            take("ffn_post_norm", "mlp_add"), take("l_out", "resid_post")
        return out | self.ends(final="result_norm", logits="result_output", embed="inp_embd" if self.bare else "inpL")

    @property
    def bare(self):
        return "embed" not in self.adds

    def dropouts(self, out, at, **stages):
        """Modules that hand on what they get in inference: a hook on every module saves them, too."""
        for n in range(self.n):
            out.update({at.format(n=n) + name.replace("_0", "."): self.of(n, stage)[None]
                        for name, stage in stages.items() if self.has(stage)})
        return out

    def fused_by_head(self, out, at):
        """query_key_value: each key/value head's queries, key and value."""
        for n in range(self.n):
            k = self.of(n, "k")
            q = self.of(n, "q").reshape(k.shape[0], -1, *k.shape[1:])
            each = np.concatenate([q, k[:, None], self.of(n, "v")[:, None]], 1)  # H_kv, group + 2, T, d_k
            out[at.format(n=n)] = each.transpose(2, 0, 1, 3).reshape(1, k.shape[1], -1)
        return out

    def hooks(self, at, norm1, norm2, attention, q, o, mlp, gate, up, down, ends, third=None, fourth=None):
        out = {}
        for n in range(self.n):
            here = at.format(n=n)
            put = lambda name, stage, batch=True: out.update(
                {here + name: self.of(n, stage)[None]}) if name is not None and self.has(stage) else None
            out[here[:-1]] = self.of(n, "resid_post")[None]
            out[here + "input"] = self.of(n, "resid_pre")[None]
            put(norm1, "x" if self.shape != "post" else "mlp_x")
            put(norm2, "attn_add" if self.shape == "sandwich" else "mlp_x" if self.shape != "post" else "resid_post")
            put(third, "mlp_x"), put(fourth, "mlp_add")
            for name, stage in zip(q, "qkv"):
                out[here + name] = merged(self.of(n, stage))[None]
            put(o, "output"), put(o + ".input", "concat"), put(attention, "output")
            put(gate, "mlp_pre"), put(up, "mlp_up"), put(down + ".input", "mlp_act"), put(down, "mlp_out")
            if self.shape != "post":
                put(mlp, "mlp_out"), put(mlp + ".input", "mlp_x")
        return out | {name: value[None] for name, value in self.ends(**ends).items()}

    def modules(self):
        """torch hooks on every module, by its name in Transformers."""
        family, sandwich = self.family, self.shape == "sandwich"
        if family in ("llama", "mistral", "qwen2", "qwen3", "gemma", "gemma2", "gemma3"):
            a, m = "self_attn.", "mlp."
            return self.hooks("model.layers.{n}.", "input_layernorm", "post_attention_layernorm", a[:-1],
                              [a + x + "_proj" for x in "qkv"], a + "o_proj", "mlp", m + "gate_proj", m + "up_proj",
                              m + "down_proj", {"final": "model.norm", "logits": "lm_head"} |
                              ({"embed": "model.embed_tokens"} if self.bare else {}),
                              "pre_feedforward_layernorm" if sandwich else None,
                              "post_feedforward_layernorm" if sandwich else None)
        if family == "gpt2":
            out = self.hooks("transformer.h.{n}.", "ln_1", "ln_2", "attn", [], "attn.c_proj", "mlp", "mlp.c_fc", None,
                             "mlp.c_proj", {"final": "transformer.ln_f", "logits": "lm_head", "embed": "transformer.drop"})
            return self.dropouts(out, "transformer.h.{n}.", attn_0attn_dropout="weights", attn_0resid_dropout="output",
                                 mlp_0dropout="mlp_out", mlp_0act="mlp_act")
        if family == "gpt_neox":
            out = self.hooks("gpt_neox.layers.{n}.", "input_layernorm", "post_attention_layernorm", "attention", [],
                             "attention.dense", "mlp", "mlp.dense_h_to_4h", None, "mlp.dense_4h_to_h",
                             {"final": "gpt_neox.final_layer_norm", "logits": "embed_out", "embed": "gpt_neox.embed_in"})
            out = self.fused_by_head(out, "gpt_neox.layers.{n}.attention.query_key_value")
            return self.dropouts(out, "gpt_neox.layers.{n}.", attention_0attention_dropout="weights",
                                 post_attention_dropout="output", post_mlp_dropout="mlp_out") | \
                {"gpt_neox.emb_dropout": self.s["embed"][None]}
        if family in ("bert", "roberta"):
            out = self.hooks(family + ".encoder.layer.{n}.", "attention.output", "output", None,
                             ["attention.self." + x for x in ("query", "key", "value")], "attention.output.dense", None,
                             "intermediate.dense", None, "output.dense",
                             {"embed": family + ".embeddings",
                              "logits": "cls.predictions.decoder" if family == "bert" else "lm_head"})
            out[family + ".encoder"] = self.of(self.n - 1, "resid_post")[None]
            return self.dropouts(out, family + ".encoder.layer.{n}.", attention_0self_0dropout="weights",
                                 attention_0output_0dropout="output", output_0dropout="mlp_out", attention="mlp_x")
        return None

    def nnsight(self):
        if self.family not in ("llama", "mistral", "qwen2", "qwen3", "gemma", "gemma2", "gemma3", "gpt2"):
            return None
        gpt2 = self.family == "gpt2"
        at = "transformer.h[{n}]." if gpt2 else "model.layers[{n}]."
        out = {}
        for n in range(self.n):
            here = at.format(n=n)
            out[here + "output[0]"] = self.of(n, "resid_post")[None]
            out[here + "input"] = self.of(n, "resid_pre")[None]
            out[here + "mlp.output"] = self.of(n, "mlp_out")[None]
            out[here + ("attn" if gpt2 else "self_attn") + ".output[0]"] = self.of(n, "output")[None]
        return out | self.ends(logits="lm_head.output", final="transformer.ln_f.output" if gpt2 else "model.norm.output")

    def transformer_lens(self):
        out = {}
        if self.shape not in ("pre", "parallel", "sandwich"):
            return None
        for n in range(self.n):
            at = f"blocks.{n}."
            put = lambda name, stage: out.update({at + name: self.of(n, stage)[None]}) if self.has(stage) else None
            put("hook_resid_pre", "resid_pre"), put("hook_resid_post", "resid_post"), put("hook_resid_mid", "residual")
            put("attn.hook_pattern", "weights")
            for letter in "qkv":
                out[at + f"attn.hook_{letter}"] = self.of(n, letter).transpose(1, 0, 2)[None]
            out[at + "attn.hook_z"] = self.of(n, "head_out").transpose(1, 0, 2)[None]
            sandwich = self.shape == "sandwich"
            put("hook_attn_out", "attn_add" if sandwich else "output")
            put("hook_mlp_out", "mlp_add" if sandwich else "mlp_out")
            put("mlp.hook_pre", "mlp_pre"), put("mlp.hook_post", "mlp_act")
            if self.gated:
                put("mlp.hook_pre_linear", "mlp_up")
        return out

    def vllm(self):
        """Layers that return their result apart from the residual; fused projections."""
        if self.family not in ("llama", "mistral", "qwen2", "qwen3"):
            return None
        out = {}
        for n in range(self.n):
            at = f"model.layers.{n}."
            out[at + "0"], out[at + "1"] = self.of(n, "mlp_out"), self.of(n, "residual")
            out[at + "self_attn.qkv_proj"] = np.concatenate([merged(self.of(n, s)) for s in "qkv"], -1)
            out[at + "self_attn.o_proj"] = self.of(n, "output")
            out[at + "post_attention_layernorm.0"] = self.of(n, "mlp_x")
            out[at + "post_attention_layernorm.1"] = self.of(n, "residual")
            out[at + "mlp.gate_up_proj"] = np.concatenate([self.of(n, "mlp_pre"), self.of(n, "mlp_up")], -1)
            out[at + "mlp.act_fn"] = self.of(n, "mlp_act")
            out[at + "mlp.down_proj"] = self.of(n, "mlp_out")
        return out | self.ends(final="model.norm.0", logits="logits")


    def sglang(self):
        """TensorDumper: leaf modules, pairs as elements, what a pass was given, the last token's logits."""
        if self.vllm() is None or not self.has("q_rope"):
            return None
        out = {"model.forward_batch_info.input_ids": self.ids, "model.forward_batch_info.seq_lens": np.array([len(self.ids)]),
               "model.forward_batch_info.positions": np.arange(len(self.ids)), "model": np.ones((3, self.of(0, "x").shape[-1]))}
        for n in range(self.n):
            at = f"model.layers.{n}."
            if n == 0:
                out[at + "input_layernorm"] = self.of(n, "x")
            else:
                out[at + "input_layernorm.0"], out[at + "input_layernorm.1"] = self.of(n, "x"), self.of(n, "resid_pre")
            out[at + "self_attn.qkv_proj"] = np.concatenate([merged(self.of(n, s)) for s in "qkv"], -1)
            out[at + "self_attn.rotary_emb.0"], out[at + "self_attn.rotary_emb.1"] = (merged(self.of(n, s)) for s in ("q_rope", "k_rope"))
            out[at + "self_attn.attn"], out[at + "self_attn.o_proj"] = self.of(n, "concat"), self.of(n, "output")
            out[at + "post_attention_layernorm.0"], out[at + "post_attention_layernorm.1"] = self.of(n, "mlp_x"), self.of(n, "residual")
            out[at + "mlp.gate_up_proj"] = np.concatenate([self.of(n, "mlp_pre"), self.of(n, "mlp_up")], -1)
            out[at + "mlp.act_fn"], out[at + "mlp.down_proj"] = self.of(n, "mlp_act"), self.of(n, "mlp_out")
        out["model.norm.0"], out["model.norm.1"] = self.s["final"], self.of(self.n - 1, "resid_post")
        return out | {"logits_processor": self.s["logits"][-1:]}

    def mlx(self):
        """Modules of mlx-lm, which stand below language_model in models of several kinds of input."""
        found = self.modules() if self.family not in ("bert", "roberta", "gpt_neox") else None
        return found and {"language_model." + name: value for name, value in found.items() if not name.endswith(".input")}


NAMINGS = ["canonical", "states", "numbered_states", "llama_cpp", "modules", "nnsight", "transformer_lens", "vllm", "sglang", "mlx"]
MODELS = ["gpt2", "llama-rope-parameters", "llama2-gqa", "gemma2", "bert", "neox-parallel", "qwen3-untied", "roberta"]


def check(program, folder, ids, path, precision):
    problems = []
    for command in ("diff", "diagnose"):
        done = subprocess.run([program, command, folder, "--ids", ",".join(map(str, ids)), "--threads", "1", "--quiet",
                               "--against", path], capture_output=True, text=True)
        flat = " ".join(done.stdout.split())
        half = precision in ("f16", "bf16")
        good = "Every layer agrees" in flat if command == "diff" else \
            "nothing to explain" in flat or (half and "precision." in flat and not has_cause(flat))
        left = flat.partition("not compared: ")[2]
        if done.returncode != 0 or not good or (left and "pass's file" not in left):
            problems.append(f"{command} exit {done.returncode}: {done.stderr.strip()[:200]} {flat[:700]}")
    return problems


def has_cause(text):
    return any(word in text for word in ("block.", "mlp.", "norm.", "rope.", "scale.", "embed.", "head.", "weight.",
                                         "Nothing explains"))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("models")
    parser.add_argument("--texts", type=int, default=3)
    parser.add_argument("--model", action="append")
    parser.add_argument("--naming", action="append")
    parser.add_argument("--precision", action="append")
    parser.add_argument("--keep", help="a folder for what the ports save")
    parser.add_argument("-j", type=int, default=2)
    args = parser.parse_args()
    rng, out = np.random.default_rng(5), args.keep or tempfile.mkdtemp()
    os.makedirs(out, exist_ok=True)
    jobs = []
    for name in args.model or MODELS:
        folder = os.path.join(args.models, name)
        config = json.load(open(os.path.join(folder, "config.json")))
        model = load(folder)
        V = config["vocab_size"]
        for text in range(args.texts):
            ids = [int(x) for x in rng.integers(5, V, 6 + 2 * text)]
            for precision in args.precision or ["f64", "f32", "f16", "bf16"]:
                saver = Saver(run(model, ids, precision), model)
                saver.family, saver.ids = config["model_type"].replace("_text", ""), np.array(ids)
                saver.adds = "embed" if saver.family in ("gpt2", "bert", "roberta", "gemma", "gemma2", "gemma3") else ""
                for naming in args.naming or NAMINGS:
                    tensors = getattr(saver, naming)()
                    if tensors is None:
                        continue
                    path = os.path.join(out, f"{name}-{text}-{precision}-{naming}.npz")
                    np.savez(path, **{n: v if v.dtype.kind == "i" else np.asarray(v, SAVED[precision])
                                      for n, v in tensors.items()})
                    jobs.append((folder, ids, path, precision))
    bad = 0
    with concurrent.futures.ThreadPoolExecutor(args.j) as pool:
        for job, problems in zip(jobs, pool.map(lambda job: check(args.program, *job), jobs)):
            bad += bool(problems)
            for problem in problems:
                print(os.path.basename(job[2]), problem, flush=True)
    print(f"{len(jobs) - bad} of {len(jobs)} right ports are told so")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
