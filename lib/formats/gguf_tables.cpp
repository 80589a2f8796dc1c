#include <mha/formats/gguf_tables.hpp>

#include <mha/system/named.hpp>

namespace mha::io {

namespace {

// LLaMA's names, which most models use.
constexpr std::string_view llama_ends =
    "token_embd=model.embed_tokens output_norm=model.norm output=lm_head";
constexpr std::string_view llama_attention =
    "attn_norm=input_layernorm attn_q=self_attn.q_proj attn_k=self_attn.k_proj "
    "attn_v=self_attn.v_proj attn_output=self_attn.o_proj attn_q_norm=self_attn.q_norm "
    "attn_k_norm=self_attn.k_norm";
constexpr std::string_view llama_mlp = "ffn_norm=post_attention_layernorm ffn_gate=mlp.gate_proj "
                                       "ffn_up=mlp.up_proj ffn_down=mlp.down_proj";
constexpr std::string_view four_norms_mlp =
    "post_attention_norm=post_attention_layernorm ffn_norm=pre_feedforward_layernorm "
    "post_ffw_norm=post_feedforward_layernorm ffn_gate=mlp.gate_proj ffn_up=mlp.up_proj "
    "ffn_down=mlp.down_proj";
constexpr std::string_view ungated_mlp =
    "ffn_norm=post_attention_layernorm ffn_up=mlp.up_proj ffn_down=mlp.down_proj";
constexpr std::string_view experts =
    "ffn_gate_inp=mlp.gate ffn_gate_exps=mlp.experts.#.gate_proj ffn_up_exps=mlp.experts.#.up_proj "
    "ffn_down_exps=mlp.experts.#.down_proj ffn_gate_inp_shexp=mlp.shared_expert_gate "
    "ffn_gate_shexp=mlp.shared_expert.gate_proj ffn_up_shexp=mlp.shared_expert.up_proj "
    "ffn_down_shexp=mlp.shared_expert.down_proj";
/// Experts, and shared ones that are always computed.
constexpr std::string_view experts_and_shared =
    "ffn_gate_inp=mlp.gate exp_probs_b=mlp.gate.e_score_correction_bias! "
    "ffn_gate_exps=mlp.experts.#.gate_proj ffn_up_exps=mlp.experts.#.up_proj "
    "ffn_down_exps=mlp.experts.#.down_proj ffn_gate_shexp=mlp.shared_experts.gate_proj "
    "ffn_up_shexp=mlp.shared_experts.up_proj ffn_down_shexp=mlp.shared_experts.down_proj";
constexpr std::string_view ernie_experts =
    "ffn_gate_inp=mlp.gate exp_probs_b=mlp.moe_statics.e_score_correction_bias! "
    "ffn_gate_exps=mlp.experts.#.gate_proj ffn_up_exps=mlp.experts.#.up_proj "
    "ffn_down_exps=mlp.experts.#.down_proj ffn_gate_shexp=mlp.shared_experts.gate_proj "
    "ffn_up_shexp=mlp.shared_experts.up_proj ffn_down_shexp=mlp.shared_experts.down_proj";
constexpr std::string_view minimax_experts =
    "ffn_gate_inp=block_sparse_moe.gate exp_probs_b=block_sparse_moe.e_score_correction_bias! "
    "ffn_gate_exps=block_sparse_moe.experts.#.w1 ffn_up_exps=block_sparse_moe.experts.#.w3 "
    "ffn_down_exps=block_sparse_moe.experts.#.w2";
constexpr std::string_view hunyuan_experts =
    "ffn_gate_inp=mlp.gate.wg ffn_gate_exps=mlp.experts.#.gate_proj "
    "ffn_up_exps=mlp.experts.#.up_proj ffn_down_exps=mlp.experts.#.down_proj "
    "ffn_gate_shexp=mlp.shared_mlp.gate_proj ffn_up_shexp=mlp.shared_mlp.up_proj "
    "ffn_down_shexp=mlp.shared_mlp.down_proj";
constexpr std::string_view hunyuan_attention =
    "attn_norm=input_layernorm attn_q=self_attn.q_proj attn_k=self_attn.k_proj "
    "attn_v=self_attn.v_proj attn_output=self_attn.o_proj attn_q_norm=self_attn.query_layernorm "
    "attn_k_norm=self_attn.key_layernorm";
constexpr std::string_view afmoe_mlp =
    "attn_gate=self_attn.gate_proj post_attention_norm=post_attention_layernorm "
    "ffn_norm=pre_mlp_layernorm post_ffw_norm=post_mlp_layernorm ffn_gate=mlp.gate_proj "
    "ffn_up=mlp.up_proj ffn_down=mlp.down_proj ffn_gate_inp=mlp.router.gate "
    "exp_probs_b=mlp.expert_bias!";
constexpr std::string_view llama4_mlp =
    "ffn_norm=post_attention_layernorm ffn_gate=feed_forward.gate_proj "
    "ffn_up=feed_forward.up_proj ffn_down=feed_forward.down_proj "
    "ffn_gate_inp=feed_forward.router ffn_gate_exps=feed_forward.experts.#.gate_proj "
    "ffn_up_exps=feed_forward.experts.#.up_proj ffn_down_exps=feed_forward.experts.#.down_proj "
    "ffn_gate_shexp=feed_forward.shared_expert.gate_proj "
    "ffn_up_shexp=feed_forward.shared_expert.up_proj "
    "ffn_down_shexp=feed_forward.shared_expert.down_proj";
constexpr std::string_view step_experts =
    "attn_gate=self_attn.g_proj ffn_gate_inp=moe.gate exp_probs_b=moe.router_bias! "
    "ffn_gate_exps=moe.gate_proj ffn_up_exps=moe.up_proj ffn_down_exps=moe.down_proj "
    "ffn_gate_shexp=share_expert.gate_proj ffn_up_shexp=share_expert.up_proj "
    "ffn_down_shexp=share_expert.down_proj";
constexpr std::string_view mimo_mlp =
    "attn_sinks=self_attn.attention_sink_bias! ffn_norm=post_attention_layernorm "
    "ffn_gate=mlp.gate_proj ffn_up=mlp.up_proj ffn_down=mlp.down_proj";
constexpr std::string_view laguna_mlp =
    "attn_gate=self_attn.g_proj ffn_norm=post_attention_layernorm ffn_gate=mlp.gate_proj "
    "ffn_up=mlp.up_proj ffn_down=mlp.down_proj";
constexpr std::string_view gemma4_ends =
    "token_embd=model.embed_tokens output_norm=model.norm output=lm_head "
    "per_layer_token_embd=model.embed_tokens_per_layer "
    "per_layer_model_proj=model.per_layer_model_projection "
    "per_layer_proj_norm=model.per_layer_projection_norm";
/// Beside four norms and a feed-forward: the embeddings of each layer, and a mixture.
constexpr std::string_view gemma4_more =
    "inp_gate=per_layer_input_gate proj=per_layer_projection post_norm=post_per_layer_input_norm "
    "layer_output_scale=layer_scalar! ffn_gate_inp=router.proj ffn_gate_inp.scale=router.scale! "
    "ffn_down_exps.scale=router.per_expert_scale! ffn_gate_exps=experts.#.gate_proj "
    "ffn_up_exps=experts.#.up_proj ffn_gate_up_exps=experts.gate_up_proj! "
    "ffn_down_exps=experts.down_proj! pre_ffw_norm_2=pre_feedforward_layernorm_2 "
    "post_ffw_norm_1=post_feedforward_layernorm_1 post_ffw_norm_2=post_feedforward_layernorm_2";
constexpr std::string_view mixtral_experts =
    "ffn_gate_inp=block_sparse_moe.gate ffn_gate_exps=block_sparse_moe.experts.#.w1 "
    "ffn_up_exps=block_sparse_moe.experts.#.w3 ffn_down_exps=block_sparse_moe.experts.#.w2";
constexpr std::string_view gpt2_ends =
    "token_embd=transformer.wte position_embd=transformer.wpe output_norm=transformer.ln_f "
    "output=lm_head";
constexpr std::string_view gpt2_block =
    "attn_norm=ln_1 attn_qkv=attn.c_attn attn_output=attn.c_proj ffn_norm=ln_2 ffn_up=mlp.c_fc "
    "ffn_down=mlp.c_proj";
constexpr std::string_view neox_mlp =
    "ffn_norm=post_attention_layernorm ffn_up=mlp.dense_h_to_4h ffn_down=mlp.dense_4h_to_h";

constexpr GgufArchitecture llama_like(std::string_view name, std::string_view model_type,
                                      std::string_view mlp = llama_mlp,
                                      std::string_view more = {}) {
  return {.name = name,
          .model_type = model_type,
          .blocks = "model.layers",
          .ends = llama_ends,
          .of_block = {llama_attention, mlp, more}};
}
/// The rows of q and k are in the order of the original LLaMA, in which pairs are neighbours.
constexpr GgufArchitecture permuted_llama(std::string_view name, std::string_view model_type,
                                          std::string_view mlp = llama_mlp,
                                          std::string_view more = {}) {
  GgufArchitecture row = llama_like(name, model_type, mlp, more);
  row.neighbours = true;
  return row;
}
/// Norms are stored + 1.
constexpr GgufArchitecture raised_norms(std::string_view name, std::string_view model_type,
                                        std::string_view mlp, std::string_view more = {}) {
  GgufArchitecture row = llama_like(name, model_type, mlp, more);
  row.norms_plus_1 = true;
  return row;
}

constexpr GgufArchitecture gguf_rows[]{
    permuted_llama("llama", "llama", llama_mlp, mixtral_experts),
    permuted_llama("mistral3", "ministral3"),
    permuted_llama("smollm3", "smollm3"),
    permuted_llama("granite", "granite"),
    permuted_llama("granitemoe", "granitemoe", llama_mlp, experts_and_shared),
    permuted_llama("deepseek", "deepseek", llama_mlp, experts_and_shared),
    // Ling's queries, keys and values are apart in these files, so that it is DeepSeek's first MoE.
    permuted_llama("bailingmoe", "deepseek", llama_mlp, experts_and_shared),
    permuted_llama("olmo", "olmo"),
    permuted_llama("baichuan", "llama"),
    permuted_llama("xverse", "llama"),
    permuted_llama("minicpm", "granite"),
    permuted_llama("internlm2", "llama"),
    permuted_llama("arcee", "arcee", ungated_mlp),
    llama_like("qwen2", "qwen2"),
    llama_like("qwen2moe", "qwen2_moe", llama_mlp, experts),
    llama_like("qwen2vl", "qwen2_vl"),
    llama_like("qwen3", "qwen3"),
    llama_like("qwen3moe", "qwen3_moe", llama_mlp, experts),
    llama_like("olmoe", "olmoe", llama_mlp, experts),
    llama_like("olmo2", "olmo2", four_norms_mlp),
    llama_like("exaone", "llama"),
    llama_like("exaone4", "exaone4", four_norms_mlp),
    llama_like("exaone-moe", "exaone_moe", llama_mlp, experts_and_shared),
    llama_like("ernie4_5", "ernie4_5"),
    llama_like("ernie4_5-moe", "ernie4_5_moe", llama_mlp, ernie_experts),
    llama_like("dots1", "dots1", llama_mlp, experts_and_shared),
    llama_like("minimax-m2", "minimax_m2", llama_mlp, minimax_experts),
    // The norm before the feed-forward has another name.
    llama_like("glm4moe", "glm4_moe",
               "post_attention_norm=post_attention_layernorm ffn_gate=mlp.gate_proj "
               "ffn_up=mlp.up_proj ffn_down=mlp.down_proj",
               experts_and_shared),
    {.name = "hunyuan-dense",
     .model_type = "hunyuan_v1_dense",
     .blocks = "model.layers",
     .ends = llama_ends,
     .of_block = {hunyuan_attention, llama_mlp}},
    {.name = "hunyuan-moe",
     .model_type = "hunyuan_v1_moe",
     .blocks = "model.layers",
     .ends = llama_ends,
     .of_block = {hunyuan_attention, llama_mlp, hunyuan_experts}},
    llama_like("eurobert", "eurobert"),
    llama_like("jais2", "jais2", ungated_mlp),
    llama_like("stablelm", "stablelm"),
    llama_like("command-r", "cohere"),
    llama_like("cohere2", "cohere2"),
    llama_like("seed_oss", "seed_oss",
               "post_attention_norm=post_attention_layernorm ffn_gate=mlp.gate_proj "
               "ffn_up=mlp.up_proj ffn_down=mlp.down_proj"),
    llama_like("glm4", "glm4",
               "post_attention_norm=post_self_attn_layernorm ffn_norm=post_attention_layernorm "
               "post_ffw_norm=post_mlp_layernorm ffn_up=mlp.gate_up_proj ffn_down=mlp.down_proj"),
    llama_like("starcoder2", "starcoder2",
               "ffn_norm=post_attention_layernorm ffn_up=mlp.c_fc ffn_down=mlp.c_proj"),
    llama_like("gpt-oss", "gpt_oss",
               "attn_sinks=self_attn.sinks! post_attention_norm=post_attention_layernorm "
               "ffn_gate_inp=mlp.router ffn_gate_exps=mlp.experts.#.gate_proj "
               "ffn_up_exps=mlp.experts.#.up_proj ffn_down_exps=mlp.experts.#.down_proj"),
    llama_like("deepseek2", "deepseek_v2",
               "attn_q_a=self_attn.q_a_proj attn_q_a_norm=self_attn.q_a_layernorm "
               "attn_q_b=self_attn.q_b_proj attn_kv_a_mqa=self_attn.kv_a_proj_with_mqa "
               "attn_kv_a_norm=self_attn.kv_a_layernorm attn_kv_b=self_attn.kv_b_proj "
               "ffn_norm=post_attention_layernorm ffn_gate=mlp.gate_proj ffn_up=mlp.up_proj "
               "ffn_down=mlp.down_proj",
               experts_and_shared),
    llama_like("afmoe", "afmoe", afmoe_mlp, experts_and_shared),
    llama_like("laguna", "laguna", laguna_mlp, experts_and_shared),
    llama_like("llama4", "llama4_text", llama4_mlp),
    llama_like("mimo2", "mimo_v2_flash", mimo_mlp, experts_and_shared),
    raised_norms("step35", "step3p5", llama_mlp, step_experts),
    {.name = "bailingmoe2",
     .model_type = "bailing_moe_v2",
     .blocks = "model.layers",
     .ends = "token_embd=model.word_embeddings output_norm=model.norm output=lm_head",
     .of_block = {"attn_norm=input_layernorm attn_qkv=attention.query_key_value "
                  "attn_output=attention.dense attn_q_norm=attention.query_layernorm "
                  "attn_k_norm=attention.key_layernorm exp_probs_b=mlp.gate.expert_bias!",
                  llama_mlp, experts_and_shared}},
    {.name = "gemma4",
     .model_type = "gemma4_text",
     .blocks = "model.layers",
     .ends = gemma4_ends,
     .of_block = {llama_attention, four_norms_mlp, gemma4_more}},
    raised_norms("gemma", "gemma", llama_mlp),
    raised_norms("gemma2", "gemma2", four_norms_mlp),
    raised_norms("gemma3", "gemma3_text", four_norms_mlp),
    raised_norms("nemotron", "nemotron", ungated_mlp),
    {.name = "phi3",
     .model_type = "phi3",
     .blocks = "model.layers",
     .ends = llama_ends,
     .of_block = {"attn_norm=input_layernorm attn_qkv=self_attn.qkv_proj "
                  "attn_output=self_attn.o_proj ffn_norm=post_attention_layernorm "
                  "ffn_up=mlp.gate_up_proj ffn_down=mlp.down_proj"}},
    {.name = "phi2",
     .model_type = "phi",
     .blocks = "model.layers",
     .ends = "token_embd=model.embed_tokens output_norm=model.final_layernorm output=lm_head",
     .of_block = {"attn_norm=input_layernorm attn_q=self_attn.q_proj attn_k=self_attn.k_proj "
                  "attn_v=self_attn.v_proj attn_output=self_attn.dense ffn_up=mlp.fc1 "
                  "ffn_down=mlp.fc2"},
     .fused = GgufFused::separate},
    {.name = "gpt2",
     .model_type = "gpt2",
     .blocks = "transformer.h",
     .ends = gpt2_ends,
     .of_block = {gpt2_block},
     .in_out = true},
    {.name = "starcoder",
     .model_type = "gpt_bigcode",
     .blocks = "transformer.h",
     .ends = gpt2_ends,
     .of_block = {gpt2_block}},
    {.name = "gptneox",
     .model_type = "gpt_neox",
     .blocks = "gpt_neox.layers",
     .ends = "token_embd=gpt_neox.embed_in output_norm=gpt_neox.final_layer_norm output=embed_out",
     .of_block = {"attn_norm=input_layernorm attn_qkv=attention.query_key_value "
                  "attn_output=attention.dense",
                  neox_mlp},
     .fused = GgufFused::per_group},
    {.name = "bloom",
     .model_type = "bloom",
     .blocks = "transformer.h",
     .ends = "token_embd=transformer.word_embeddings "
             "token_embd_norm=transformer.word_embeddings_layernorm output_norm=transformer.ln_f "
             "output=lm_head",
     .of_block = {"attn_norm=input_layernorm attn_qkv=self_attention.query_key_value "
                  "attn_output=self_attention.dense",
                  neox_mlp},
     .fused = GgufFused::per_group},
    // If Falcon has two parallel norms, attn_norm is the feed-forward's: see gguf_checkpoint.cpp.
    {.name = "falcon",
     .model_type = "falcon",
     .blocks = "transformer.h",
     .ends = "token_embd=transformer.word_embeddings output_norm=transformer.ln_f output=lm_head",
     .of_block = {"attn_norm=input_layernorm attn_norm_2=ln_attn "
                  "attn_qkv=self_attention.query_key_value attn_output=self_attention.dense",
                  neox_mlp},
     .fused = GgufFused::per_group},
    {.name = "mpt",
     .model_type = "mpt",
     .blocks = "transformer.blocks",
     .ends = "token_embd=transformer.wte position_embd=transformer.wpe "
             "output_norm=transformer.norm_f output=lm_head",
     .of_block = {"attn_norm=norm_1 attn_qkv=attn.Wqkv attn_output=attn.out_proj "
                  "attn_q_norm=attn.q_ln attn_k_norm=attn.k_ln ffn_norm=norm_2 "
                  "ffn_up=ffn.up_proj ffn_down=ffn.down_proj"}},
    {.name = "bert",
     .model_type = "bert",
     .blocks = "bert.encoder.layer",
     .ends = "token_embd=bert.embeddings.word_embeddings "
             "position_embd=bert.embeddings.position_embeddings "
             "token_types=bert.embeddings.token_type_embeddings "
             "token_embd_norm=bert.embeddings.LayerNorm",
     .of_block = {"attn_q=attention.self.query attn_k=attention.self.key "
                  "attn_v=attention.self.value attn_output=attention.output.dense "
                  "attn_output_norm=attention.output.LayerNorm ffn_up=intermediate.dense "
                  "ffn_down=output.dense layer_output_norm=output.LayerNorm"}},
};

} // namespace

const GgufArchitecture* find_gguf_architecture(std::string_view name) {
  return find_named(gguf_rows, name);
}

} // namespace mha::io
