#include <mha/load/families/llama_traits.hpp>

#include <mha/system/one_of.hpp>
#include <mha/system/words.hpp>

#include <algorithm>

namespace mha::naming {

namespace {

bool all_but_first_of_four(const Group&, std::size_t layer) {
  return layer % 4 != 0;
}

constexpr BiasKey never, always{.otherwise = true}, by_mlp_bias{.key = "mlp_bias"},
    by_attention_bias{.key = "attention_bias"},
    unless_attention_bias_is_false{.key = "attention_bias", .otherwise = true};

constexpr LlamaTraits rows[]{
    {.models = "llama granite hyperclovax minicpm xverse baichuan", .mlp_bias = by_mlp_bias},
    {.models = "granitemoe granitemoeshared smollm3 gemma gemma2 vaultgemma"},
    {.models = "arcee eurobert", .eps = 1e-5, .mlp_bias = by_mlp_bias},
    {.models = "cwm",
     .qkv_bias = never,
     .eps = 1e-5,
     .mlp_bias = by_mlp_bias,
     .rope_base = 1e6,
     .slides = all_but_first_of_four,
     .window_width = 8192},
    {.models = "helium",
     .output_bias = never,
     .eps = 1e-8,
     .mlp_bias = by_mlp_bias,
     .rope = "interleaved",
     .rope_base = 1e5},
    {.models = "jais2",
     .qkv_bias = unless_attention_bias_is_false,
     .norm = BlockNorm::layer,
     .eps_key = "layer_norm_eps",
     .eps = 1e-5,
     .mlp_bias = {.key = "mlp_bias", .otherwise = true}},
    {.models = "nemotron",
     .norm = BlockNorm::layer,
     .eps_key = "norm_eps",
     .eps = 1e-5,
     .mlp_bias = by_mlp_bias,
     .rope_part = 0.5},
    {.models = "seed_oss",
     .qkv_bias = unless_attention_bias_is_false,
     .output_bias = {.key = "attention_out_bias"},
     .mlp_bias = by_mlp_bias},
    {.models = "mistral ministral", .qkv_bias = never, .slides = every_layer, .window_width = 4096},
    {.models = "mixtral", .qkv_bias = never, .eps = 1e-5, .slides = every_layer},
    {.models = "ministral3",
     .qkv_bias = never,
     .eps = 1e-5,
     .rope_base = 1e6,
     .slides = every_layer},
    {.models = "stablelm",
     .qkv_bias = {.key = "use_qkv_bias"},
     .output_bias = never,
     .norm = BlockNorm::layer,
     .eps_key = "layer_norm_eps",
     .eps = 1e-5,
     .qk_norm = true,
     .rope_part = 0.25},
    {.models = "starcoder2",
     .qkv_bias = {.key = "use_bias", .otherwise = true},
     .norm = BlockNorm::layer,
     .eps_key = "norm_epsilon",
     .eps = 1e-5,
     .slides = every_layer},
    {.models = "qwen2 qwen2_moe", .qkv_bias = always, .output_bias = never},
    {.models = "qwen2_vl qwen2_5_vl qwen2_vl_text qwen2_5_vl_text",
     .qkv_bias = always,
     .output_bias = never,
     .eps = 1e-5},
    {.models = "qwen3 qwen3_moe qwen3_vl qwen3_vl_moe qwen3_vl_text qwen3_vl_moe_text gemma3 "
               "gemma3_text",
     .qk_norm = true},
    {.models = "olmo2 olmo3 olmoe", .eps = 1e-5, .qk_norm = true},
    {.models = "exaone4", .qkv_bias = never, .eps = 1e-5, .qk_norm = true},
    {.models = "ernie4_5 ernie4_5_moe", .qkv_bias = {.key = "use_bias"}, .eps = 1e-5},
    {.models = "glm",
     .qkv_bias = unless_attention_bias_is_false,
     .output_bias = never,
     .eps = 1.5625e-7},
    {.models = "glm4", .output_bias = never, .eps = 1.5625e-7},
    {.models = "glm4_moe", .output_bias = never, .eps = 1e-5, .qk_norm = true},
    {.models = "gpt_oss", .qkv_bias = unless_attention_bias_is_false, .eps = 1e-5},
    {.models = "cohere cohere2",
     .norm = BlockNorm::layer,
     .eps_key = "layer_norm_eps",
     .eps = 1e-5,
     .qk_norm = true},
    {.models = "olmo", .norm = BlockNorm::layer, .eps_key = "", .eps = 1e-5},
};

} // namespace

const LlamaTraits* llama_traits(const Group& group) {
  const std::vector<std::string> types = group.model_types();
  const auto* const row = std::ranges::find_if(rows, [&](const LlamaTraits& one) {
    return std::ranges::any_of(words_of(one.models),
                               [&](std::string_view type) { return is_one_of(type, types); });
  });
  return row == std::end(rows) ? nullptr : row;
}

} // namespace mha::naming
