#include <mha/formats/onnx_operators.hpp>

#include <mha/files/text.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <span>

namespace mha::io {

namespace {

enum class Use : std::uint8_t {
  read,           ///< handled by the reader, which refuses unsupported values
  without_effect, ///< no effect on a layer's results for one whole text
  only,           ///< only the default value is accepted
  hides,          ///< a number that masks scores and must be below all scores
  past,           ///< cached keys, which must be empty as in the first pass of a text
  refused,
};

struct Argument {
  std::string_view name;
  Use use = Use::read;
  double number = 0;
};

struct Operator {
  std::string_view domain, name;
  std::span<const Argument> attributes, inputs;
};

// https://onnx.ai/onnx/operators/onnx__Attention.html, versions 23 to 25.
constexpr Argument standard_attributes[]{
    {"is_causal"},
    {"kv_num_heads"},
    {"q_num_heads"},
    {"scale"},
    {"softcap"},
    {"left_window_size"},
    {"right_window_size"},
    {"qk_matmul_output_mode", Use::without_effect}, // selects the scores of the fourth output
    {"softmax_precision", Use::read}};
constexpr Argument standard_inputs[]{{"Q"},
                                     {"K"},
                                     {"V"},
                                     {"attn_mask"},
                                     {"past_key", Use::past},
                                     {"past_value", Use::past},
                                     {"nonpad_kv_seqlen"}};

// https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md
constexpr Argument fused_attributes[]{{"num_heads"},
                                      {"unidirectional"},
                                      {"qkv_hidden_sizes"},
                                      {"do_rotary"},
                                      {"rotary_embedding_dim"},
                                      {"scale"},
                                      {"mask_filter_value", Use::hides},
                                      {"past_present_share_buffer", Use::without_effect}};
constexpr Argument fused_inputs[]{{"input"},
                                  {"weights"},
                                  {"bias"},
                                  {"mask_index"},
                                  {"past", Use::past},
                                  {"attention_bias"},
                                  {"past_sequence_length", Use::past}};

constexpr Argument multi_head_attributes[]{
    {"num_heads"}, {"unidirectional"}, {"scale"}, {"mask_filter_value", Use::hides}};
constexpr Argument multi_head_inputs[]{{"query"},
                                       {"key"},
                                       {"value"},
                                       {"bias"},
                                       {"key_padding_mask"},
                                       {"attention_bias"},
                                       {"past_key", Use::past},
                                       {"past_value", Use::past},
                                       {"past_sequence_length", Use::past},
                                       {"cache_indirection", Use::refused}};

constexpr Argument grouped_attributes[]{
    {"num_heads"},
    {"kv_num_heads"},
    {"causal"},
    {"scale"},
    {"softcap"},
    {"local_window_size"},
    {"do_rotary"},
    {"rotary_interleaved"},
    {"smooth_softmax"},
    {"sliding_window_cache", Use::without_effect},
    {"qk_output", Use::without_effect},
    {"k_quant_type", Use::only},
    {"v_quant_type", Use::only}, // "NONE"
    {"kv_cache_bit_width", Use::without_effect},
    {"qk_norm_epsilon", Use::without_effect}}; // without the weights of that norm
constexpr Argument grouped_inputs[]{{"query"},
                                    {"key"},
                                    {"value"},
                                    {"past_key", Use::past},
                                    {"past_value", Use::past},
                                    {"seqlens_k"},
                                    {"total_sequence_length"},
                                    {"cos_cache"},
                                    {"sin_cache"},
                                    {"position_ids"},
                                    {"attention_bias"},
                                    {"head_sink"},
                                    {"k_scale", Use::refused},
                                    {"v_scale", Use::refused},
                                    {"q_norm_weight", Use::refused},
                                    {"k_norm_weight", Use::refused}};

constexpr Operator operators[]{
    {"", "Attention", standard_attributes, standard_inputs},
    {"com.microsoft", "Attention", fused_attributes, fused_inputs},
    {"com.microsoft", "MultiHeadAttention", multi_head_attributes, multi_head_inputs},
    {"com.microsoft", "GroupQueryAttention", grouped_attributes, grouped_inputs}};

std::string unread_attribute(const Argument& part, const OnnxStep& step) {
  const auto number = step.number(part.name);
  switch (part.use) {
  case Use::only: {
    const std::string_view text = step.text(part.name);
    if (text.empty() || text == "NONE") return "";
    return fmt::format("its attribute {} = {} is not read", part.name, shown(text));
  }
  case Use::hides:
    if (!number || *number < -1000) return "";
    return fmt::format("its attribute {} = {} hides nothing", part.name, number_text(*number));
  case Use::read:
  case Use::without_effect:
  case Use::past:
    return "";
  case Use::refused:
    break;
  }
  return fmt::format("its attribute {} is not read", part.name);
}

std::string unread_input(const Argument& part, const OnnxFlow& flow, int value) {
  if (part.use == Use::refused) return fmt::format("its input {} is not read", part.name);
  if (part.use != Use::past) return "";
  const OnnxValue& of = flow.at(flow.resolved(value));
  const auto& shape = flow.shape(value);
  if (of.is_input || (shape && onnx_count(*shape) == 0)) return "";
  if (shape && onnx_count(*shape) == 1 && flow.number(value) == 0) return "";
  return fmt::format("its input {} holds cached keys or lengths, which are not read", part.name);
}

} // namespace

std::string onnx_unread_part(const OnnxFlow& flow, const OnnxStep& step) {
  const auto found = std::ranges::find_if(operators, [&](const Operator& one) {
    return one.name == step.node->op && one.domain == step.node->domain;
  });
  if (found == std::end(operators)) return "it is an operator that is not read";
  for (const OnnxAttribute& attribute : step.node->attributes) {
    const auto part = std::ranges::find(found->attributes, attribute.name, &Argument::name);
    if (part == found->attributes.end())
      return fmt::format("its attribute {} is not known", shown(attribute.name));
    if (std::string why = unread_attribute(*part, step); !why.empty()) return why;
  }
  for (std::size_t place = 0; place < step.inputs.size(); ++place) {
    if (step.inputs[place] < 0) continue;
    if (place >= found->inputs.size()) return fmt::format("its input {} is not known", place);
    if (std::string why = unread_input(found->inputs[place], flow, step.inputs[place]);
        !why.empty())
      return why;
  }
  return "";
}

bool is_attention_operator(const OnnxStep& step) {
  return step.node->op.ends_with("Attention") || step.node->op == "DecoderMaskedSelfAttention";
}

} // namespace mha::io
