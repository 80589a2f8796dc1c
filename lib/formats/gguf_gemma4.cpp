// What Gemma 4's GGUF files have in their tensors, and its config.json as settings: which pairs of
// a head turn, whether keys are values, whether there are experts.

#include <mha/formats/gguf_settings.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <vector>

namespace mha::io {

namespace {

/// Gemma 4's layers without a window turn the first pairs of a head: the divisors of the others are
/// beyond any number.
void take_proportional(GgufSettings& settings) {
  const std::string whole = "rope_parameters.full_attention.";
  const GgufTensor* const divisors = settings.tensor("rope_freqs.weight");
  const auto type = settings.text("rope.scaling.type");
  const auto refuse = [&](std::string_view found) {
    settings.refuse_tensor("rope_freqs.weight",
                           fmt::format("{}: ones, and for pairs that do not turn 1e30, expected "
                                       "in a vector of half a head",
                                       found));
  };
  if (type.value_or("none") != "none")
    settings.refuse("rope.scaling.type", "which is not computed here: none expected");
  for (const char* key : {"rope.scaling.factor", "rope.scale_linear", "rope.scaling.attn_factor"})
    if (settings.number_but_0(key).value_or(1) != 1)
      settings.refuse(key, "which is not computed here: 1 expected");
  if (const auto dims = settings.number("rope.dimension_count");
      dims && dims != settings.number("attention.key_length"))
    settings.refuse("rope.dimension_count", "which is not computed here: a whole head expected");
  settings.set(whole + "rope_type", "proportional");
  settings.set(whole + "partial_rotary_factor", "1");
  if (!divisors) return refuse("is missing");
  constexpr std::size_t most = 4096;
  const double half = settings.number("attention.key_length").value_or(0) / 2;
  if (divisors->dtype != DType::f32 || divisors->blocks || divisors->shape.size() != 1 ||
      divisors->shape[0] == 0 || divisors->shape[0] > most ||
      static_cast<double>(divisors->shape[0]) != half)
    return refuse(fmt::format("is {} of {}", to_string(divisors->shape), divisors->type));
  const Tensor numbers = divisors->read();
  const auto values = numbers.as<float>();
  const auto turned = std::find_if(values.begin(), values.end(), [](float x) { return x != 1; });
  constexpr float not_turned = 1e29F;
  if (!std::all_of(turned, values.end(), [](float x) { return x >= not_turned; }))
    return refuse("has other numbers");
  settings.set_rotated_part(whole + "partial_rotary_factor",
                            static_cast<double>(turned - values.begin()),
                            static_cast<double>(values.size()));
}

/// Refuses queries and keys of other widths than Gemma 4's keys give, for each kind of layers.
void require_widths(GgufSettings& settings, const std::vector<bool>& windowed) {
  const GgufValue* const heads = settings.value("attention.head_count");
  const GgufValue* const key_heads = settings.value("attention.head_count_kv");
  for (std::size_t i = 0; i < windowed.size(); ++i) {
    const char* const key = windowed[i] ? "attention.key_length_swa" : "attention.key_length";
    for (const auto& [part, counts] : {std::pair("attn_q", heads), {"attn_k", key_heads}}) {
      const std::string name = fmt::format("blk.{}.{}.weight", i, part);
      const GgufTensor* const tensor = settings.tensor(name);
      const auto width = settings.number(key);
      const std::int64_t count = counts ? counts->integer(counts->is_array ? i : 0).value_or(0) : 0;
      if (!tensor || !width || count <= 0 || tensor->shape.size() != 2) continue;
      if (const double rows = static_cast<double>(count) * *width;
          static_cast<double>(tensor->shape[0]) != rows)
        return settings.refuse(key, fmt::format("but {} is {}: {} rows expected of {} heads", name,
                                                to_string(tensor->shape), rows, count));
    }
  }
}

} // namespace

void take_gguf_gemma4(GgufSettings& settings, const std::vector<bool>& windowed) {
  for (const char* key :
       {"attention.head_count_kv", "attention.key_length", "attention.key_length_swa"})
    if (!settings.value(key)) settings.refuse(key, "is missing: a number expected");
  if (!settings.value("final_logit_softcapping")) // llama.cpp's default
    settings.set("final_logit_softcapping", "30");
  constexpr const char* suppressed = "tokenizer.ggml.suppress_tokens";
  if (const GgufValue* const tokens = settings.file().find(suppressed))
    settings.keep(suppressed, *tokens);
  take_proportional(settings);
  require_widths(settings, windowed);
  const double shared = settings.number("attention.shared_kv_layers").value_or(0);
  for (std::size_t i = 0; i < windowed.size(); ++i) {
    const auto has = [&](std::string_view name) {
      return settings.has(fmt::format("blk.{}.{}.weight", i, name));
    };
    if (static_cast<double>(i) + shared >= static_cast<double>(windowed.size())) break;
    if (!windowed[i] && has("attn_k") && !has("attn_v")) settings.set("attention_k_eq_v", "true");
  }
  settings.set_flag("enable_moe_block", settings.has("blk.0.ffn_gate_inp.weight"));
}

} // namespace mha::io
