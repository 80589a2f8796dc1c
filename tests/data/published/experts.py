#!/usr/bin/env python3
"""Writes experts/: small models whose results other projects published, from the seeds and settings that they gave.

    /usr/bin/python3 tests/data/published/experts.py                      # the models that experts/ holds
    /usr/bin/python3 tests/data/published/experts.py deepseek3 --out DIR  # 1 MB, so the test writes it when it runs
    … --logits DIR                                # also expected.npz, from the projects' JSON files in DIR

Seeds, settings, the order of drawing and results were taken, no code:

mixtral     joaopauloschuler/neural-api, tools/mixtral_tiny_fixture.py of commit 2489df20b6360e677763db170f0b942eb61f74f7
            and tests/fixtures/tiny_mixtral_logits.json of 6e063af066ee30906a1ef77ba2d6e1ec1514b4b6: two layers, the best
            two of four experts. Logits of all three texts.
llama4      the same, tools/llama4_tiny_fixture.py of 6e063af066ee30906a1ef77ba2d6e1ec1514b4b6 and
            tests/fixtures/tiny_llama4_logits.json of 2489df20b6360e677763db170f0b942eb61f74f7: four layers, each second
            without rotation and with a mixture and a shared expert. Logits of all three texts.
deepseek3   townsendmerino/goinfer, scripts/pin_deepseek_tiny.py and testdata/deepseek_tiny_text_golden.json of commit
            da3dbbb4a8371481087d1775ba950441a83bcfdd: latent attention, one dense layer and three mixtures. Logits of the
            text's last token, and the six tokens that follow one by one.
gptoss      ROCm/AMDMIGraphX (MIT), test/op/builder/moe_test.cpp of commit 92de7109cf4172102d84fd954e802e6fba69120b,
            moe_swiglu_interleaved_test: two experts of gpt-oss. Numbers and result, which is a mixture's alone.
laguna      lablup/mlxcel (Apache-2.0, © Lablup), src/models/laguna_tests.rs of commit
            08e0903694fd368eec795583d326875e90fde879, per_head_gate_applies_softplus_per_head: one layer's attention.
sinks       the same, sliding_attention_sink_joins_the_softmax_on_prefill_and_decode: one layer's attention, as one of
            gpt-oss.

neural-api has an LGPL exception file; the licence files of neural-api and goinfer were not seen. The logits come from
Transformers: of mixtral and llama4 in float64, in which norms, softmaxes and rotation stay float32; of deepseek3 in
float32.
"""
import argparse
import json
import os
import sys

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "../../models"))
import safetensors  # noqa: E402

F = np.float32


class Torch:
    """Numbers of PyTorch's generator on a CPU: MT19937 (Matsumoto, Nishimura 1998) and the transform of Box and Muller
    (1958), in blocks of 16: 8 radii from the first 8 uniform numbers, 8 angles from the others. An ulp or so may differ."""

    def __init__(self, seed, skipped=0):
        self.state = np.random.RandomState(seed)
        self.uniform(skipped)

    def bits(self, count):
        return self.state.randint(0, 2**32, count, dtype=np.uint64)

    def uniform(self, count):
        return ((self.bits(count) & np.uint64(2**24 - 1)).astype(float) / 2**24).astype(F)

    def normal(self, *shape, std):
        def turned(u):
            radius, angle = np.sqrt(F(-2) * np.log(F(1) - u[:, :8])), F(2 * np.pi) * u[:, 8:]
            return np.concatenate([radius * np.cos(angle), radius * np.sin(angle)], 1)

        count = int(np.prod(shape))
        x, whole = self.uniform(count), count // 16 * 16
        x[:whole] = turned(x[:whole].reshape(-1, 16)).ravel()
        if count % 16:  # the last 16 numbers are made again
            x[-16:] = turned(self.uniform(16).reshape(1, 16)).ravel()
        return (x * F(std)).reshape(shape)

    def few(self, count, std):
        """Fewer than 16: in float64, of 53 bits, the angle first."""
        pairs = []
        for _ in range(count // 2):
            angle, square = (((int(a) << 32 | int(b)) & (2**53 - 1)) / 2**53 for a, b in self.bits(4).reshape(2, 2))
            radius = np.sqrt(-2 * np.log1p(-square))
            pairs += [radius * np.cos(2 * np.pi * angle), radius * np.sin(2 * np.pi * angle)]
        return np.array(pairs).astype(F) * F(std)


def said(name, cls, **keys):
    return {"architectures": [cls + "ForCausalLM"], "model_type": name, "attention_bias": False, "hidden_act": "silu",
            "tie_word_embeddings": False, "torch_dtype": "float32"} | keys


def ones(width, *names):
    return {f"{name}.weight": np.ones(width) for name in names}


def drawn(draw, at, shapes):
    return {f"{at}{name}.weight": draw(*shape) for name, shape in shapes.items()}


def gated(d, width):
    return {"gate_proj": (width, d), "up_proj": (width, d), "down_proj": (d, width)}


def mixtral():
    d, I, E, V = 8, 12, 4, 13
    torch = Torch(20260612, skipped=3600)  # building the model draws 608, initialising it 2992
    draw = lambda *shape: torch.normal(*shape, std=0.5)
    t = {"model.embed_tokens.weight": draw(V, d)}
    for n in range(2):
        at = f"model.layers.{n}."
        t |= drawn(draw, at + "self_attn.", {"q_proj": (8, d), "k_proj": (4, d), "v_proj": (4, d), "o_proj": (d, 8)})
        draw(E, d)  # the router, drawn again below
        both, down = draw(E, 2 * I, d), draw(E, d, I)
        for e in range(E):
            t |= {f"{at}block_sparse_moe.experts.{e}.{w}.weight": x
                  for w, x in (("w1", both[e, :I]), ("w3", both[e, I:]), ("w2", down[e]))}
        t |= ones(d, at + "input_layernorm", at + "post_attention_layernorm")
    t |= ones(d, "model.norm") | {"lm_head.weight": draw(V, d)}
    for n in range(2):
        t[f"model.layers.{n}.block_sparse_moe.gate.weight"] = torch.normal(E, d, std=0.3)
    config = said("mixtral", "Mixtral", hidden_size=d, intermediate_size=I, num_hidden_layers=2, num_attention_heads=2,
                  num_key_value_heads=1, vocab_size=V, max_position_embeddings=16, rms_norm_eps=1e-5, rope_theta=10000.0,
                  num_local_experts=E, num_experts_per_tok=2, output_router_logits=False, sliding_window=None)
    del config["attention_bias"]
    return config, t


def llama4():
    d, I, dense, E, V = 8, 5, 12, 4, 13
    torch = Torch(20260614, skipped=5584)  # building the model draws 2256, initialising it 3328
    draw = lambda *shape: torch.normal(*shape, std=0.5)
    t = {"model.embed_tokens.weight": draw(V, d)}
    for n in range(4):
        at, feed = f"model.layers.{n}.", f"model.layers.{n}.feed_forward."
        t |= drawn(draw, at + "self_attn.", {"q_proj": (12, d), "k_proj": (6, d), "v_proj": (6, d), "o_proj": (d, 12)})
        if n % 2:
            t |= {feed + "experts.gate_up_proj": draw(E, d, 2 * I), feed + "experts.down_proj": draw(E, I, d)}
            draw(E, d)  # the router, drawn again below
        t |= drawn(draw, feed + "shared_expert." * (n % 2), gated(d, I if n % 2 else dense))
        t |= ones(d, at + "input_layernorm", at + "post_attention_layernorm")
    t |= ones(d, "model.norm") | {"lm_head.weight": draw(V, d)}
    for n in (1, 3):
        t[f"model.layers.{n}.feed_forward.router.weight"] = torch.normal(E, d, std=0.3)
    return said("llama4_text", "Llama4", hidden_size=d, intermediate_size=I, intermediate_size_mlp=dense, head_dim=6,
                num_hidden_layers=4, num_attention_heads=2, num_key_value_heads=1, vocab_size=V, max_position_embeddings=64,
                rms_norm_eps=1e-5, rope_theta=10000.0, rope_scaling=None, num_local_experts=E, num_experts_per_tok=2,
                interleave_moe_layer_step=2, no_rope_layer_interval=2, use_qk_norm=True, attn_temperature_tuning=True,
                attention_chunk_size=8192, floor_scale=4, attn_scale=0.7), t


def deepseek3():
    d, I, H, r_q, r, nope, pe, d_v, E, V, layers = 64, 32, 4, 24, 16, 16, 8, 16, 8, 128, 4
    attention = {"q_a_proj": (r_q, d), "q_b_proj": (H * (nope + pe), r_q), "kv_a_proj_with_mqa": (r + pe, d),
                 "kv_b_proj": (H * (nope + d_v), r), "o_proj": (d, H * d_v)}
    feed = lambda n: gated(d, I if n else 128)
    size = lambda shapes: sum(a * b for a, b in shapes.values())
    built = V * d + sum(size(attention) + size(feed(n)) for n in range(layers))
    torch = Torch(0, skipped=built)
    draw = lambda *shape: torch.normal(*shape, std=0.02)
    t = {"model.embed_tokens.weight": draw(V, d)}
    for n in range(layers):
        at, mlp = f"model.layers.{n}.", f"model.layers.{n}.mlp."
        t |= drawn(draw, at + "self_attn.", attention)
        if n:
            both, down = draw(E, 2 * I, d), draw(E, d, I)
            for e in range(E):
                t |= {f"{mlp}experts.{e}.{x}.weight": w
                      for x, w in (("gate_proj", both[e, :I]), ("up_proj", both[e, I:]), ("down_proj", down[e]))}
            t |= drawn(draw, mlp, {"gate": (E, d)})
        t |= drawn(draw, mlp + "shared_experts." * (n > 0), feed(n))
        t |= ones(d, at + "input_layernorm", at + "post_attention_layernorm")
        t |= ones(r_q, at + "self_attn.q_a_layernorm") | ones(r, at + "self_attn.kv_a_layernorm")
    torch.uniform(V * d)  # of building lm_head
    t |= ones(d, "model.norm") | {"lm_head.weight": draw(V, d)}
    for n in range(1, layers):
        t[f"model.layers.{n}.mlp.gate.e_score_correction_bias"] = torch.few(E, 0.5)
    return said("deepseek_v3", "DeepseekV3", hidden_size=d, intermediate_size=128, moe_intermediate_size=I,
                num_hidden_layers=layers, first_k_dense_replace=1, num_attention_heads=H, num_key_value_heads=H,
                q_lora_rank=r_q, kv_lora_rank=r, qk_nope_head_dim=nope, qk_rope_head_dim=pe, v_head_dim=d_v,
                n_routed_experts=E, n_shared_experts=1, num_experts_per_tok=2, n_group=2, topk_group=1,
                routed_scaling_factor=2.5, norm_topk_prob=True, scoring_func="sigmoid", topk_method="noaux_tc",
                rms_norm_eps=1e-6, max_position_embeddings=64, vocab_size=V, rope_interleave=True,
                rope_parameters={"rope_theta": 10000.0, "rope_type": "default"}), t


def gptoss():
    """The norm before the mixture and the router's bias make of row 0 of the embedding what the test gives."""
    x, d, I, E = np.array([1, -2.0]), 2, 2, 2
    both = np.array([[[1, 0], [0, 1], [1, 1], [0, -1]], [[-1, 0], [1, 0], [0, 1], [1, 1]]])
    down = np.array([[[1, 0], [0, 1]], [[1, -1], [0, 1]]])
    at, experts = "model.layers.0.", "model.layers.0.mlp.experts."
    t = {"model.embed_tokens.weight": np.array([x, x[::-1]]), "lm_head.weight": np.eye(d)}
    t |= {f"{at}self_attn.{name}_proj.weight": np.zeros((d, d)) for name in "qkvo"} | {at + "self_attn.sinks": np.zeros(1)}
    t |= ones(d, at + "input_layernorm", "model.norm")
    t |= {at + "post_attention_layernorm.weight": np.full(d, np.sqrt(2.5 + 1e-5)),
          at + "mlp.router.weight": np.zeros((E, d)), at + "mlp.router.bias": np.array([1.0, 0]),
          experts + "gate_up_proj": both.swapaxes(1, 2), experts + "down_proj": down.swapaxes(1, 2),
          experts + "gate_up_proj_bias": np.array([[0.1, 0.2, -0.1, 0], [0, 0.1, 0.2, -0.2]]),
          experts + "down_proj_bias": np.array([[0.3, 0], [0, -0.3]])}
    return said("gpt_oss", "GptOss", hidden_size=d, intermediate_size=I, head_dim=d, num_hidden_layers=1, num_attention_heads=1,
                num_key_value_heads=1, vocab_size=2, num_local_experts=E, num_experts_per_tok=2, swiglu_limit=0.5,
                layer_types=["full_attention"], sliding_window=None, rms_norm_eps=1e-5, rope_theta=10000.0, rope_scaling=None), t


def attention_of(sinks):
    """Two heads of 2 with one key head: of laguna with a gate, of gpt-oss with sinks and scores of 0."""
    at = "model.layers.0.self_attn."
    k = np.array([[0.3, -0.2, 0.5, 0.1], [-0.4, 0.6, 0.2, 0.7]])
    t = {at + "q_proj.weight": (0 if sinks else 1) * np.eye(4), at + "k_proj.weight": k, at + "o_proj.weight": np.eye(4)}
    both = dict(hidden_size=4, head_dim=2, intermediate_size=4, num_hidden_layers=1, num_attention_heads=2, num_key_value_heads=1,
                vocab_size=1, layer_types=["sliding_attention"], sliding_window=3 if sinks else 8, rms_norm_eps=1e-6)
    if sinks:
        t |= {at + "v_proj.weight": np.array([[0.5, -0.25, 1, 0], [0, 1, -0.5, 0.25]]), at + "sinks": np.array([0, np.log(3)])}
        return said("gpt_oss", "GptOss", num_local_experts=2, num_experts_per_tok=1, rope_theta=10000.0, rope_scaling=None,
                    **both), t
    t |= {at + "v_proj.weight": k, at + "g_proj.weight": np.array([[0.0] * 4, [2.5] * 4])} | ones(2, at + "q_norm", at + "k_norm")
    return said("laguna", "Laguna", gating="per-head", num_attention_heads_per_layer=[2], mlp_layer_types=["dense"],
                rope_parameters={"full_attention": {"partial_rotary_factor": 0.5, "rope_theta": 500000.0, "rope_type": "default"},
                                 "sliding_attention": {"partial_rotary_factor": 1.0, "rope_theta": 10000.0,
                                                       "rope_type": "default"}}, **both), t


def sinks_input():
    """A linear congruential generator's numbers, and the sums over windows of 3 that the test compares with."""
    state, x = 0x5117, []
    for _ in range(24):
        state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
        x.append(2 * (state >> 40) / 2**24 - 1)
    x = np.array(x).reshape(6, 4)
    v = x @ np.array([[0.5, -0.25, 1, 0], [0, 1, -0.5, 0.25]]).T
    rows = [np.concatenate([v[max(0, t - 2):t + 1].sum(0) / (min(t + 1, 3) + e) for e in (1, 3)]) for t in range(6)]
    return {"X": x, "output": np.array(rows)}


def small_results():
    """gpt-oss' is printed in the test; laguna's are values of 0.7 and 1.1 times softplus of 0 and of 10."""
    v = np.array([0.7, 1.1])
    row = np.concatenate([v * np.log(2), v * np.log1p(np.exp(10.0))])
    return {"gptoss": {"ids": np.array([0]), "layers.0.mlp_out": np.array([[0.295990475, -0.252263394]])},
            "laguna": {"X": np.ones((3, 4)), "output": np.tile(row, (3, 1))}, "sinks": sinks_input()}


def published(name, folder):
    """ids and logits of a project's file; of deepseek3 the last token's."""
    file = {"mixtral": "tiny_mixtral_logits", "llama4": "tiny_llama4_logits", "deepseek3": "deepseek_tiny_text_golden"}[name]
    with open(os.path.join(folder, file + ".json")) as f:
        given = json.load(f)
    if name == "deepseek3":
        return {"ids": np.array(given["prompt_ids"]), "logits": np.array([given["last_logits"]]),
                "next": np.array(given["continuation_ids"])}
    return {"ids": np.array(given["sequences"]), "logits": np.array(given["logits"])}


MODELS = {"mixtral": mixtral, "llama4": llama4, "deepseek3": deepseek3, "gptoss": gptoss,
          "laguna": lambda: attention_of(sinks=False), "sinks": lambda: attention_of(sinks=True)}


def main():
    options = argparse.ArgumentParser()
    options.add_argument("names", nargs="*", default=[name for name in MODELS if name != "deepseek3"])
    options.add_argument("--out", default=os.path.join(HERE, "experts"))
    options.add_argument("--logits")
    given = options.parse_args()
    for name in given.names:
        folder = os.path.join(given.out, name)
        os.makedirs(folder, exist_ok=True)
        config, tensors = MODELS[name]()
        with open(os.path.join(folder, "config.json"), "w") as file:
            json.dump(config, file, indent=2)
            file.write("\n")
        small = small_results().get(name)
        dtype = "F64" if small else "F32"
        safetensors.write(os.path.join(folder, "model.safetensors"), {n: (dtype, t) for n, t in tensors.items()})
        if small or given.logits:
            np.savez_compressed(os.path.join(folder, "expected.npz"), **(small or published(name, given.logits)))


if __name__ == "__main__":
    main()
