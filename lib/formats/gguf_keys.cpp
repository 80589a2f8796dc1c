// GGUF's keys and their names in config.json.

#include <mha/formats/gguf_tables.hpp>

#include <mha/system/words.hpp>

#include <algorithm>

namespace mha::io {

namespace {

constexpr GgufKey gguf_key_rows[]{
    {"block_count", "n_layer", "gpt2 starcoder bloom"},
    {"block_count", "n_layers", "mpt"},
    {"block_count", "num_hidden_layers"},
    {"embedding_length", "n_embd", "gpt2 starcoder"},
    {"embedding_length", "d_model", "mpt"},
    {"embedding_length", "hidden_size"},
    {"context_length", "n_positions", "gpt2 starcoder"},
    {"context_length", "seq_length", "bloom"},
    {"context_length", "max_seq_len", "mpt"},
    {"context_length", "max_position_embeddings"},
    {"feed_forward_length", "n_inner", "gpt2 starcoder"},
    {"feed_forward_length", "", "bloom falcon mpt gemma4"}, // follows from the tensors
    {"feed_forward_length", "intermediate_size_mlp", "llama4"},
    {"feed_forward_length", "intermediate_size"},
    {"vocab_size", ""},
    {"attention.head_count", "n_head", "gpt2 starcoder bloom"},
    {"attention.head_count", "n_heads", "mpt"},
    {"attention.head_count", "", "laguna step35"}, // by the kind of layer
    {"attention.head_count", "num_attention_heads"},
    {"attention.head_count_kv", "num_kv_heads", "falcon"},
    {"attention.head_count_kv", "attn_config.kv_n_heads", "mpt"},
    {"attention.head_count_kv", "", "gpt2 starcoder bloom gptneox bert deepseek2"},
    {"attention.head_count_kv", "", "mimo2 step35 gemma4"},
    {"attention.head_count_kv", "num_key_value_heads"},
    {"attention.key_length", "", "deepseek2"},
    {"attention.key_length", "global_head_dim", "gemma4"},
    {"attention.key_length", "head_dim"},
    {"attention.key_length_swa", "head_dim", "gemma4"},
    {"attention.value_length_swa", "", "gemma4"},
    {"attention.value_length", "v_head_dim", "mimo2"},
    {"attention.value_scale", "attention_value_scale", "mimo2"},
    {"attention.shared_kv_layers", "num_kv_shared_layers", "gemma4"},
    {"embedding_length_per_layer_input", "hidden_size_per_layer_input", "gemma4"},
    {"attention.value_length", "", "deepseek2"},
    {"attention.q_lora_rank", "", "deepseek2"}, // follows from the tensors
    {"attention.kv_lora_rank", "", "deepseek2"},
    {"attention.layer_norm_rms_epsilon", "rms_norm_eps", gguf_rms_normed},
    {"attention.layer_norm_rms_epsilon", "", "nemotron"}, // converters write both
    {"attention.layer_norm_epsilon", "", "exaone"},
    {"attention.layer_norm_epsilon", "layer_norm_epsilon", "gpt2 starcoder bloom falcon mpt"},
    {"attention.layer_norm_epsilon", "norm_epsilon", "starcoder2"},
    {"attention.layer_norm_epsilon", "norm_eps", "nemotron"},
    {"attention.layer_norm_epsilon", "layer_norm_eps",
     "gptneox bert phi2 stablelm command-r cohere2 jais2"},
    {"attention.scale", "attention_multiplier", "granite granitemoe"},
    {"attention.clamp_kqv", "attn_config.clip_qkv", "mpt"},
    {"attention.clamp_kqv", "clip_qkv", "olmo olmoe"},
    {"attention.sliding_window", "", "qwen2 qwen2moe qwen2vl qwen3 qwen3moe dots1"}, // not used
    {"attention.sliding_window", "sliding_window", gguf_windowed},
    {"attention.sliding_window", "sliding_window", gguf_alternating},
    {"rope.dimension_count", "", gguf_unrotated},
    {"rope.dimension_count", "qk_rope_head_dim", "deepseek2"},
    {"rope.dimension_count", "rotary_dim"},
    {"rope.freq_base", "", gguf_unrotated},
    {"rope.freq_base", "rotary_emb_base", "gptneox"},
    {"rope.freq_base", "rope_theta"},
    {"rope.freq_base_swa", "rope_local_base_freq", "gemma3"},
    {"attn_logit_softcapping", "attn_logit_softcapping", "gemma2"},
    {"final_logit_softcapping", "final_logit_softcapping", "gemma2 gemma3 gemma4"},
    {"logit_scale", "logits_scaling", "granite granitemoe minicpm"},
    {"logit_scale", "logit_scale", "command-r cohere2"},
    {"embedding_scale", "embedding_multiplier", "granite granitemoe minicpm"},
    {"residual_scale", "residual_multiplier", "granite granitemoe minicpm"},
    {"use_parallel_residual", "", "stablelm"}, // follows from the norms
    {"use_parallel_residual", "use_parallel_residual", "gptneox"},
    {"expert_count", "num_local_experts", "llama gpt-oss granitemoe minimax-m2 llama4"},
    {"expert_count", "n_routed_experts", "deepseek2 deepseek bailingmoe dots1 glm4moe mimo2"},
    {"expert_count", "moe_num_experts", "ernie4_5-moe step35"},
    {"expert_count", "num_experts"},
    {"expert_used_count", "moe_top_k", "step35"},
    {"expert_used_count", "top_k_experts", "gemma4"},
    {"expert_used_count", "num_experts_per_tok"},
    {"expert_feed_forward_length", "intermediate_size", "llama4"},
    {"expert_feed_forward_length", "moe_intermediate_size"},
    {"expert_shared_count", "",
     "ernie4_5-moe hunyuan-moe exaone-moe laguna"}, // follow from tensors
    {"expert_shared_count", "num_shared_experts", "afmoe"},
    {"expert_shared_count", "n_shared_experts"},
    {"expert_shared_feed_forward_length", "", "granitemoe hunyuan-moe ernie4_5-moe exaone-moe"},
    {"expert_shared_feed_forward_length", "share_expert_dim", "step35"},
    {"expert_shared_feed_forward_length", "shared_expert_intermediate_size"},
    {"expert_group_count", "n_group"},
    {"expert_group_used_count", "topk_group"},
    {"interleave_moe_layer_step", "", "ernie4_5-moe"}, // follows from the tensors
    {"interleave_moe_layer_step", "interleave_moe_layer_step", "llama4"},
    {"moe_every_n_layers", "", "step35"},
    {"expert_weights_norm", "route_norm", "afmoe"},
    {"expert_weights_norm", "norm_expert_weight", "step35"},
    {"expert_weights_norm", "", "laguna"},
    {"expert_weights_norm", "norm_topk_prob"},
    {"expert_weights_scale", "", "mimo2"},
    {"expert_weights_scale", "route_scale", "afmoe"},
    {"expert_weights_scale", "moe_routed_scaling_factor", "laguna"},
    {"expert_weights_scale", "moe_router_scaling_factor", "step35"},
    {"expert_weights_scale", "routed_scaling_factor"},
    {"leading_dense_block_count", "num_dense_layers", "afmoe"},
    {"leading_dense_block_count", "", "laguna llama4 mimo2 step35"},
    {"leading_dense_block_count", "first_k_dense_replace"},
};

constexpr GgufKey gguf_vocabulary_rows[]{{"tokenizer.ggml.bos_token_id", "bos_token_id"},
                                         {"tokenizer.ggml.eos_token_id", "eos_token_id"},
                                         {"tokenizer.ggml.padding_token_id", "pad_token_id"}};

} // namespace

std::span<const GgufKey> gguf_vocabulary_keys() {
  return gguf_vocabulary_rows;
}

const GgufKey* find_gguf_key(std::string_view key, std::string_view architecture) {
  const auto* const row = std::ranges::find_if(gguf_key_rows, [&](const GgufKey& one) {
    return one.key == key &&
           (one.architectures.empty() || has_word(one.architectures, architecture));
  });
  return row == std::end(gguf_key_rows) ? nullptr : row;
}

} // namespace mha::io
