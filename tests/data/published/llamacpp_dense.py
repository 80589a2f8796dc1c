"""Dense models of llamacpp.py, from antonellof/ferrox as the mixtures are: their settings and the order of drawing.

GELU is a table of float16 numbers in llama.cpp, by which its logits of Gemma, GPT-NeoX and Falcon differ: the source's
own tolerance is 2e-4 for Gemma and 1e-2 for the others. Not taken: MiniCPM without its three factors, where llama.cpp
divides the logits by 256 / d and MiniCPM's makers by d / 256; Hunyuan with a factor alpha of the base, which no
converter writes (here the base is what follows from it). The commit of scripts/make_…_fixture.py, and the test's:

arcee, nemotron         72f9b453   ungated_ffn_graphs.rs, biased_layer_norm_graphs.rs  94298a3e
cohere2, stablelm       72f9b453   cohere2_graphs.rs, stablelm_graphs.rs               94298a3e
command_r, falcon       72f9b453   command_r_graphs.rs, falcon_graphs.rs               72f9b453
ernie4_5, exaone        94298a3e   fixture_away_graphs.rs                              94298a3e
exaone4                 027d284c   post_norm_only_graphs.rs                            72f9b453
exaone4 (64 layers)     027d284c   no_rope_layer_graphs.rs                             94298a3e
gemma                   31f2e34a   fixture_away_graphs.rs                              94298a3e
glm4                    28d3e289   glm4_graphs.rs                                      94298a3e
gptneox                 3b250723   parallel_residual_graphs.rs                         94298a3e
granite                 2961d7f5   granite_family_graphs.rs                            94298a3e
hunyuan_dense           31f2e34a   one_match_arm_graphs.rs                             72f9b453
internlm2, smollm3      94298a3e   fixture_away_graphs.rs, no_rope_layer_graphs.rs     94298a3e
minicpm                 333b2f6a   minicpm_graphs.rs                                   94298a3e
mistral3                5bba663b   attn_temperature_graphs.rs                          72f9b453
olmo                    641f538d   olmo_graphs.rs                                      94298a3e
olmo2                   333b2f6a   post_norm_only_graphs.rs                            72f9b453
seed_oss                72f9b453   one_match_arm_graphs.rs                             72f9b453
xverse                  72f9b453   fixture_away_graphs.rs                              94298a3e

In full, of those that llamacpp.py does not have: 28d3e289c062df6931d7de4a170aad08ee19f693,
31f2e34a4a14fc8b3da61dd8e8c9ebdad209b005, 333b2f6a4873e7c8178e2d1db27344459b68f094,
3b2507230b711bc605fd8e079871bc5d0f54765d, 5bba663bf548b410cbd9827fbee2d12bfefa4265,
641f538db727fbd2f8fa5ae10d153afdcd1bcbb2.
"""
from llamacpp_models import model

GATED = "ffn_gate ffn_up ffn_down"
BIASES = "attn_q.bias attn_k.bias attn_v.bias"
WIDE = f"attn_norm attn_q*4 attn_k*4 attn_v attn_output ffn_norm {GATED}"
AFTER = "attn_q*4 attn_k*4 attn_v*4 attn_q_norm+1.5 attn_k_norm+1.5 attn_output post_attention_norm+1 " \
        f"{GATED} post_ffw_norm+1"
NORM = "attn_norm~0.5+1.5 attn_norm.bias~0.5+0.5"
SECOND = "ffn_norm~0.5+1.5 ffn_norm.bias~0.5+0.5"
PARALLEL = f"attn_norm~0.3+1 attn_q*2 attn_k*2 attn_v attn_output {GATED}*2"  # of Cohere
STABLE = f"attn_q*2 attn_k*2 attn_v {BIASES} attn_output"
NEOX = f"{NORM} attn_q*2 attn_k*2 attn_v {BIASES} attn_output attn_output.bias {SECOND} ffn_up ffn_up.bias " \
       "ffn_down*2 ffn_down.bias"
NEMOTRON = f"{NORM} attn_q*4 attn_k*4 attn_v attn_output {SECOND} ffn_up ffn_down*4"
OLMO = "attn_q*4 attn_k*4 attn_v attn_output ffn_gate ffn_up+0.3 ffn_down+0.3"
LAST = "output_norm~0.5+1.5 output_norm.bias~0.5+0.5 output"

OF_DEVIATION = {"attention.layer_norm_rms_epsilon": None, "attention.layer_norm_epsilon": 1e-5}
UNTOLD = OF_DEVIATION | {"attention.key_length": None, "attention.value_length": None}
BASE_UNTOLD = UNTOLD | {"rope.freq_base": None}
FACTORS = {"logit_scale": 2.5, "residual_scale": 0.6, "embedding_scale": 2.0}
YARN = {"attention.temperature_scale": 0.5, "rope.scaling.type": "yarn", "rope.scaling.factor": 4.0,
        "rope.scaling.yarn_beta_fast": 32.0, "rope.scaling.yarn_beta_slow": 1.0,
        "rope.scaling.original_context_length": 4096}
UNSCALED = {"rope.scaling.type": "none"}


def dense(kind, seed, layers, d, order, keys={}, **more):
    return model(kind, seed, layers, d, keys, E=0, dense=range(layers), **{"order": (order, "", "")} | more)


def cohere2(**more):
    return dense("cohere2", 0xC0E2, 4, 32, PARALLEL, UNTOLD | UNSCALED | {
        "logit_scale": 0.25, "attention.sliding_window": 3} | more, ff=48, base=50000.0, last="output_norm~0.3+1")


def command_r(**more):
    return dense("command-r", 0xC0DE, 3, 32, PARALLEL, UNTOLD | UNSCALED | {"rope.dimension_count": None} | more, ff=48,
                 base=8e6, last="output_norm~0.3+1")


def falcon(K, order):
    return dense("falcon", 0xFA1C, 3, 32, order, BASE_UNTOLD | {"rope.dimension_count": None}, K=K, ff=128, last=LAST,
                 in_one=True)


def gpt_neox(parallel):
    return dense("gptneox", 0x6E0E, 3, 32, NEOX, BASE_UNTOLD | {
        "use_parallel_residual": parallel, "attention.head_count_kv": None}, K=4, ff=64, dims=2, last=LAST, in_one=True)


def granite(**more):
    return dense("granite", 0x6247E, 2, 24, WIDE, FACTORS | {"attention.scale": 0.9} | more, d_k=6)


def mistral(keys={}):
    return dense("mistral3", 0x3157A13, 2, 32, WIDE, keys, ff=48)


def nemotron(order):
    return dense("nemotron", 0x4E30, 3, 32, order, UNTOLD | UNSCALED, ff=48, dims=4, last=LAST)


def olmo(**more):
    return dense("olmo", 0x0117A, 2, 24, OLMO, OF_DEVIATION | more, d_k=6, first="token_embd+0.5", last="")


def stablelm(order, told):
    return dense("stablelm", 0x57AB, 3, 32, order, UNTOLD | {"use_parallel_residual": told}, ff=48, dims=2, last=LAST)


DENSE_MODELS = {
    "arcee": dense("arcee", 0xA5CEE, 2, 24, "attn_norm+1 attn_q*4 attn_k*4 attn_v attn_output ffn_norm+1 ffn_up*4 "
                   "ffn_down", d_k=6, last="output_norm+1 output"),
    "cohere2": cohere2(), "cohere2_pattern": cohere2(**{"attention.sliding_window_pattern": 2}),
    "command-r": command_r(logit_scale=0.0625), "command-r_noscale": command_r(),
    "ernie4_5": dense("ernie4_5", 0xE4E45, 2, 24, WIDE),
    "exaone": dense("exaone", 0xE7A04E, 2, 24, WIDE, last="output_norm"),
    "exaone4": dense("exaone4", 0x0E4A04, 2, 32, AFTER, ff=48),
    "exaone4_32b": dense("exaone4", 0x0E4A04, 64, 16, AFTER, {"attention.sliding_window": 3}, ff=16, H=2, K=1,
                         vocabulary=32),
    "falcon": falcon(1, f"{NORM} attn_q*2 attn_k*2 attn_v attn_output ffn_up ffn_down*2"),
    "falcon_40b": falcon(2, f"{NORM} attn_norm_2~0.5+1.5 attn_norm_2.bias~0.5+0.5 attn_q*2 attn_k*2 attn_v attn_output "
                            "ffn_up ffn_down*2"),
    "gemma": dense("gemma", 0x6E33A, 2, 24, WIDE.replace("ffn_gate", "ffn_gate*4"), last="output_norm"),
    "glm4": dense("glm4", 0x6714, 3, 32, f"attn_norm attn_q*4 attn_k*4 attn_v {BIASES} attn_output "
                  "post_attention_norm~0.5+1.5 ffn_norm ffn_up ffn_down*4 post_ffw_norm~0.5+1.5", d_k=16, dims=8,
                  eps=1.5625e-07, shapes={"ffn_up": (80, 32)}),
    "gptneox": gpt_neox(True), "gptneox_sequential": gpt_neox(False),
    "granite": granite(), "granite_norope": granite(**{"rope.scaling.finetuned": False}),
    "hunyuan-dense": dense("hunyuan-dense", 0x40D3, 2, 24, "attn_norm attn_q*4 attn_k*4 attn_v attn_output "
                           f"attn_q_norm+1.5 attn_k_norm+1.5 ffn_norm {GATED}", base=500.0 * 50**(8 / 6)),
    "internlm2": dense("internlm2", 0x1273422, 2, 24, f"attn_norm attn_q*4 attn_k*4 attn_v {BIASES} attn_output "
                       f"ffn_norm {GATED}", d_k=6),
    "minicpm": dense("minicpm", 0x11CB4, 8, 24, "attn_norm attn_q*4 attn_k*4 attn_v attn_output*6 ffn_norm ffn_gate "
                     "ffn_up ffn_down*6", FACTORS, d_k=6),
    "mistral3": mistral(),
    "mistral3_temp": mistral({"attention.temperature_scale": 0.5, "rope.scaling.original_context_length": 2}),
    "mistral3_temp_ctx": mistral({"attention.temperature_scale": 0.5, "context_length": 2}),
    "mistral3_yarn": mistral(YARN), "mistral3_yarn_logmul": mistral(YARN | {"rope.scaling.yarn_log_multiplier": 0.5}),
    "nemotron": nemotron(NEMOTRON),
    "nemotron_biases": nemotron(NEMOTRON + " attn_output.bias ffn_up.bias ffn_down.bias"),
    "olmo": olmo(), "olmo_clamped": olmo(**{"attention.clamp_kqv": 8.0}),
    "olmo2": dense("olmo2", 0x0102A2, 2, 24, AFTER, d_k=6, whole_norms=True),
    "seed_oss": dense("seed_oss", 0x5EED05, 2, 24, "attn_norm post_attention_norm attn_q attn_k attn_v attn_output "
                      + GATED),
    "smollm3": dense("smollm3", 0x5A0113, 4, 32, WIDE.replace("attn_v", "attn_v*4"), ff=48),
    "stablelm": stablelm(f"{NORM} {STABLE} {SECOND} {GATED}*2", False),
    "stablelm_parkey": stablelm(f"{NORM} {STABLE} {SECOND} {GATED}*2", True),  # a key that llama.cpp does not read
    "stablelm_parallel": stablelm(f"{NORM} {STABLE} {GATED}*2", True),
    "xverse": dense("xverse", 0x83235E, 2, 24, WIDE, d_k=6)}
