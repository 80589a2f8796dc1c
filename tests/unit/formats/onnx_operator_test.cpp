// Every attribute and every input of attention's operators: computed as the operator is defined, or
// refused by its name.

#include "support/onnx_outcome.hpp"

#include <catch2/catch.hpp>

#include <cmath>
#include <functional>

namespace {

using onnx::Attribute;
using onnx::Dims;
using onnx::Graph;
using onnx::Value;

constexpr std::int64_t T = 5, D = 8, d = 6;

/// What an operator is to compute, beside its projections.
struct Meaning {
  std::int64_t heads = 2, shared = 2; ///< of queries, and of keys and values
  double scale = 1 / std::sqrt(static_cast<double>(d)), softcap = 0;
  bool causal = false, rotary = false;
  std::int64_t left = -1, right = -1;
  std::vector<double> sinks = {}, bias = {};
  /// What is added to a score, −∞ where it is hidden.
  std::function<double(std::int64_t h, std::int64_t t, std::int64_t s)> added =
      [](std::int64_t, std::int64_t, std::int64_t) { return 0.0; };
};

/// Rows of x times a weight, of its columns from `first` on, with a bias.
std::vector<double> projected(const Value& x, const Value& w, std::int64_t first,
                              std::int64_t width, const std::vector<double>& bias) {
  std::vector<double> y;
  const std::int64_t columns = w.shape[1];
  for (std::int64_t t = 0; t < T; ++t)
    for (std::int64_t j = first; j < first + width; ++j) {
      double sum = bias.empty() ? 0 : bias[static_cast<std::size_t>(j)];
      for (std::int64_t i = 0; i < D; ++i)
        sum += x.data[static_cast<std::size_t>(t * D + i)] *
               w.data[static_cast<std::size_t>(i * columns + j)];
      y.push_back(sum);
    }
  return y;
}

/// Halves turned by their position, base 10000.
void rotate(std::vector<double>& y, std::int64_t heads) {
  for (std::int64_t t = 0; t < T; ++t)
    for (std::int64_t h = 0; h < heads; ++h)
      for (std::int64_t j = 0; j < d / 2; ++j) {
        const double angle =
            static_cast<double>(t) *
            std::pow(10000.0, -2.0 * static_cast<double>(j) / static_cast<double>(d));
        double& a = y[static_cast<std::size_t>((t * heads + h) * d + j)];
        double& b = y[static_cast<std::size_t>((t * heads + h) * d + j + d / 2)];
        const double turned = a * std::cos(angle) - b * std::sin(angle);
        b = a * std::sin(angle) + b * std::cos(angle), a = turned;
      }
}

/// The layer's output: q, k and v are columns of one weight, in this order.
Value attended(const Value& x, const Value& w, const Value& w_o, const Meaning& meaning) {
  const std::int64_t H = meaning.heads, kv = meaning.shared;
  std::vector<double> q = projected(x, w, 0, H * d, meaning.bias),
                      k = projected(x, w, H * d, kv * d, meaning.bias);
  const std::vector<double> v = projected(x, w, (H + kv) * d, kv * d, meaning.bias);
  if (meaning.rotary) rotate(q, H), rotate(k, kv);
  std::vector<double> concat(static_cast<std::size_t>(T * H * d));
  for (std::int64_t h = 0; h < H; ++h)
    for (std::int64_t t = 0; t < T; ++t) {
      const std::int64_t from = h / (H / kv);
      std::vector<double> e;
      double sum = meaning.sinks.empty() ? 0 : std::exp(meaning.sinks[static_cast<std::size_t>(h)]);
      for (std::int64_t s = 0; s < T; ++s) {
        double score = 0;
        for (std::int64_t j = 0; j < d; ++j)
          score += q[static_cast<std::size_t>((t * H + h) * d + j)] *
                   k[static_cast<std::size_t>((s * kv + from) * d + j)];
        score *= meaning.scale;
        if (meaning.softcap != 0) score = meaning.softcap * std::tanh(score / meaning.softcap);
        const bool hidden = (meaning.causal && s > t) ||
                            (meaning.left >= 0 && t - s > meaning.left) ||
                            (meaning.right >= 0 && s - t > meaning.right);
        e.push_back(hidden ? 0 : std::exp(score + meaning.added(h, t, s)));
        sum += e.back();
      }
      for (std::int64_t s = 0; s < T; ++s)
        for (std::int64_t j = 0; j < d; ++j)
          concat[static_cast<std::size_t>((t * H + h) * d + j)] +=
              e[static_cast<std::size_t>(s)] / sum *
              v[static_cast<std::size_t>((s * kv + from) * d + j)];
    }
  Value y{{1, T, D}, std::vector<double>(static_cast<std::size_t>(T * D))};
  for (std::int64_t t = 0; t < T; ++t)
    for (std::int64_t i = 0; i < H * d; ++i)
      for (std::int64_t j = 0; j < D; ++j)
        y.data[static_cast<std::size_t>(t * D + j)] +=
            concat[static_cast<std::size_t>(t * H * d + i)] *
            w_o.data[static_cast<std::size_t>(i * D + j)];
  return y;
}

struct Operator {
  std::string domain, op;
  std::vector<std::pair<std::string, Attribute>> attributes;
  std::vector<std::string> inputs; ///< names of them all, by the definition
  Meaning meaning = {};
};

/// An attribute or an input with a value, and what it means; `refused`: it is not computed.
struct Part {
  std::string name;
  Attribute value;
  std::function<void(Meaning&)> means = [](Meaning&) {};
  bool refused = false;
  bool given = false; ///< an input of the graph, not a constant
};

struct Made {
  Graph graph;
  Value x, w, w_o;
};

Made made(const Operator& of, const std::vector<Part>& parts, bool open) {
  const std::int64_t H = of.meaning.heads, kv = of.meaning.shared;
  Made made;
  made.x = onnx::random_value({1, T, D}, 31);
  made.w = onnx::random_value({D, (H + 2 * kv) * d}, 32),
  made.w_o = onnx::random_value({H * d, D}, 33);
  Graph& g = made.graph;
  g.opset = 25;
  if (open)
    g.inputs.push_back({"x", {"batch", "sequence", D}});
  else
    g.inputs.push_back({"x", {std::int64_t{1}, T, D}});
  std::vector<std::string> inputs(of.inputs.size());
  if (of.op == "Attention" && !of.domain.empty()) {
    inputs[0] = "x", inputs[1] = g.constant(made.w);
  } else {
    std::int64_t first = 0;
    for (std::size_t i = 0; i < 3; ++i) {
      const std::int64_t width = (i == 0 ? H : kv) * d;
      Value w{{D, width}, {}};
      for (std::int64_t row = 0; row < D; ++row)
        for (std::int64_t j = 0; j < width; ++j)
          w.data.push_back(
              made.w.data[static_cast<std::size_t>(row * made.w.shape[1] + first + j)]);
      inputs[i] = g.add("MatMul", {"x", g.constant(std::move(w))});
      first += width;
    }
  }
  onnx::Node node{of.op,           {},
                  {"heads"},       {of.attributes.begin(), of.attributes.end()},
                  "/the/" + of.op, of.domain};
  for (const Part& part : parts) {
    const auto place = std::ranges::find(of.inputs, part.name) - of.inputs.begin();
    if (part.given)
      g.inputs.push_back({part.name, {"batch"}, onnx::i64}),
          inputs[static_cast<std::size_t>(place)] = part.name;
    else if (const auto* value = std::get_if<Value>(&part.value);
             value && place < static_cast<std::ptrdiff_t>(inputs.size()))
      inputs[static_cast<std::size_t>(place)] = g.constant(*value);
    else
      node.attributes[part.name] = part.value;
  }
  while (!inputs.empty() && inputs.back().empty()) inputs.pop_back();
  node.inputs = inputs;
  g.nodes.push_back(node);
  g.add("MatMul", {"heads", g.constant(made.w_o)});
  return made;
}

/// "" where the parts are computed or refused by the name of the one that is refused.
std::string judged(const Operator& of, const std::vector<Part>& parts, bool open = false) {
  const Made graph = made(of, parts, open);
  Meaning meaning = of.meaning;
  const Part* refused = nullptr;
  for (const Part& part : parts) {
    part.means(meaning);
    if (part.refused) refused = &part;
  }
  const onnx::Outcome outcome = onnx::outcome_of(graph.graph, graph.x);
  if (!outcome.output) {
    const bool named = outcome.said.find("'/the/" + of.op + "'") != std::string::npos && refused &&
                       outcome.said.find(refused->name) != std::string::npos;
    return named ? "" : "not computed: " + outcome.said;
  }
  if (refused) return "computed, though " + refused->name + " is not read";
  return onnx::is_close(*outcome.output, attended(graph.x, graph.w, graph.w_o, meaning))
             ? ""
             : "other numbers: " + outcome.said;
}

Value numbers(Dims shape, std::vector<double> list, onnx::Type type = onnx::f32) {
  return {std::move(shape), std::move(list), type};
}
/// Of T × T, with what is hidden by true and false, or a number that is added.
Value map(bool truth) {
  Value value = onnx::random_value({T, T}, 77);
  if (truth) {
    value.type = onnx::boolean;
    for (std::size_t i = 0; i < value.data.size(); ++i) value.data[i] = i % 3 != 1;
  }
  return value;
}
void adds_map(Meaning& meaning, bool truth) {
  meaning.added = [value = map(truth), truth](std::int64_t, std::int64_t t, std::int64_t s) {
    const double one = value.data[static_cast<std::size_t>(t * T + s)];
    return truth ? (one != 0 ? 0 : -INFINITY) : one;
  };
}
/// A bias of every head.
Value bias_of(std::int64_t heads) {
  return onnx::random_value({1, heads, T, T}, 78);
}
Part added_bias(const std::string& name, std::int64_t heads) {
  return {name, bias_of(heads), [heads](Meaning& m) {
            m.added = [value = bias_of(heads)](std::int64_t h, std::int64_t t, std::int64_t s) {
              return value.data[static_cast<std::size_t>((h * T + t) * T + s)];
            };
          }};
}
std::int64_t whole(std::int64_t number) {
  return number;
}

const Operator standard{"",
                        "Attention",
                        {{"q_num_heads", whole(2)}, {"kv_num_heads", whole(2)}},
                        {"Q", "K", "V", "attn_mask", "past_key", "past_value", "nonpad_kv_seqlen"}};
const Operator fused{
    "com.microsoft",
    "Attention",
    {{"num_heads", whole(2)}},
    {"input", "weights", "bias", "mask_index", "past", "attention_bias", "past_sequence_length"}};
const Operator multi_head{"com.microsoft",
                          "MultiHeadAttention",
                          {{"num_heads", whole(2)}},
                          {"query", "key", "value", "bias", "key_padding_mask", "attention_bias",
                           "past_key", "past_value", "past_sequence_length", "cache_indirection"}};
const Operator grouped{"com.microsoft",
                       "GroupQueryAttention",
                       {{"num_heads", whole(4)}, {"kv_num_heads", whole(2)}},
                       {"query", "key", "value", "past_key", "past_value", "seqlens_k",
                        "total_sequence_length", "cos_cache", "sin_cache", "position_ids",
                        "attention_bias", "head_sink", "k_scale", "v_scale", "q_norm_weight",
                        "k_norm_weight"},
                       {.heads = 4, .shared = 2, .causal = true}};

std::vector<Part> parts_of_standard() {
  return {{"scale", 0.3F, [](Meaning& m) { m.scale = static_cast<double>(0.3F); }},
          {"softcap", 2.0F, [](Meaning& m) { m.softcap = 2; }},
          {"is_causal", whole(1), [](Meaning& m) { m.causal = true; }},
          {"left_window_size", whole(2), [](Meaning& m) { m.left = 2; }},
          {"right_window_size", whole(1), [](Meaning& m) { m.right = 1; }},
          {"qk_matmul_output_mode", whole(2)},
          {"softmax_precision", whole(1)},
          {.name = "softmax_precision", .value = whole(10), .refused = true},
          {.name = "a_newer_attribute", .value = whole(1), .refused = true},
          {"attn_mask", map(false), [](Meaning& m) { adds_map(m, false); }},
          {"attn_mask", map(true), [](Meaning& m) { adds_map(m, true); }},
          added_bias("attn_mask", 2),
          {.name = "past_key", .value = onnx::random_value({1, 2, 3, d}, 5), .refused = true},
          {.name = "past_value", .value = onnx::random_value({1, 2, 3, d}, 5), .refused = true},
          {"nonpad_kv_seqlen", numbers({1}, {5}, onnx::i64)},
          {.name = "nonpad_kv_seqlen", .value = numbers({1}, {3}, onnx::i64), .refused = true},
          {.name = "nonpad_kv_seqlen", .value = whole(0), .given = true}};
}

std::vector<Part> parts_of_fused() {
  return {
      {"scale", 0.3F, [](Meaning& m) { m.scale = static_cast<double>(0.3F); }},
      {"unidirectional", whole(1), [](Meaning& m) { m.causal = true; }},
      {"qkv_hidden_sizes", Dims{12, 12, 12}},
      {"do_rotary", whole(1), [](Meaning& m) { m.rotary = true; }},
      {"rotary_embedding_dim", whole(6)},
      {"mask_filter_value", -65504.0F},
      {.name = "mask_filter_value", .value = -1.0F, .refused = true},
      {"past_present_share_buffer", whole(0)},
      {.name = "a_newer_attribute", .value = whole(1), .refused = true},
      {"bias", onnx::random_value({36}, 41),
       [](Meaning& m) { m.bias = onnx::random_value({36}, 41).data; }},
      {"mask_index", numbers({1}, {5}, onnx::i32)},
      {.name = "mask_index", .value = numbers({1}, {3}, onnx::i32), .refused = true},
      {.name = "mask_index", .value = numbers({2}, {5, 1}, onnx::i32), .refused = true},
      {"mask_index", numbers({1, 5}, {1, 1, 1, 1, 1}, onnx::i32)},
      {.name = "mask_index", .value = numbers({1, 5}, {1, 1, 0, 1, 1}, onnx::i32), .refused = true},
      {.name = "past", .value = onnx::random_value({2, 1, 2, 3, d}, 5), .refused = true},
      added_bias("attention_bias", 2),
      {.name = "past_sequence_length", .value = numbers({1}, {2}, onnx::i32), .refused = true}};
}

std::vector<Part> parts_of_multi_head() {
  return {{"scale", 0.3F, [](Meaning& m) { m.scale = static_cast<double>(0.3F); }},
          {"unidirectional", whole(1), [](Meaning& m) { m.causal = true; }},
          {.name = "mask_filter_value", .value = 0.0F, .refused = true},
          {.name = "a_newer_attribute", .value = whole(1), .refused = true},
          {"bias", onnx::random_value({36}, 41),
           [](Meaning& m) { m.bias = onnx::random_value({36}, 41).data; }},
          {"key_padding_mask", numbers({1}, {5}, onnx::i32)},
          {.name = "key_padding_mask", .value = numbers({1}, {4}, onnx::i32), .refused = true},
          {"key_padding_mask", numbers({1, 5}, {1, 1, 1, 1, 1}, onnx::i32)},
          {.name = "key_padding_mask",
           .value = numbers({1, 5}, {1, 1, 1, 0, 1}, onnx::i32),
           .refused = true},
          added_bias("attention_bias", 2),
          {.name = "past_key", .value = onnx::random_value({1, 2, 3, d}, 5), .refused = true},
          {.name = "past_value", .value = onnx::random_value({1, 2, 3, d}, 5), .refused = true},
          {.name = "past_sequence_length", .value = numbers({1}, {2}, onnx::i32), .refused = true},
          {.name = "cache_indirection",
           .value = numbers({1, 1, 5}, {0, 0, 0, 0, 0}, onnx::i32),
           .refused = true}};
}

std::vector<Part> parts_of_grouped() {
  const auto counted = [](std::vector<double> list) {
    return numbers({1, 5}, std::move(list), onnx::i64);
  };
  return {{"scale", 0.3F, [](Meaning& m) { m.scale = static_cast<double>(0.3F); }},
          {"softcap", 2.0F, [](Meaning& m) { m.softcap = 2; }},
          {"causal", whole(0), [](Meaning& m) { m.causal = false; }},
          {"local_window_size", whole(3), [](Meaning& m) { m.left = 2; }},
          {"smooth_softmax", whole(1),
           [](Meaning& m) {
             m.sinks = {0, 0, 0, 0};
           }},
          {"smooth_softmax", whole(0)},
          {"qk_output", whole(1)},
          {"sliding_window_cache", whole(1)},
          {"kv_cache_bit_width", whole(8)},
          {"qk_norm_epsilon", 0.1F},
          {"k_quant_type", std::string("NONE")},
          {.name = "k_quant_type", .value = std::string("PER_TENSOR"), .refused = true},
          {.name = "v_quant_type", .value = std::string("PER_CHANNEL"), .refused = true},
          {.name = "a_newer_attribute", .value = whole(1), .refused = true},
          {"seqlens_k", numbers({1}, {4}, onnx::i32)},
          {.name = "seqlens_k", .value = numbers({1}, {2}, onnx::i32), .refused = true},
          {"total_sequence_length", numbers({}, {5}, onnx::i32)},
          {.name = "total_sequence_length", .value = numbers({}, {3}, onnx::i32), .refused = true},
          {"position_ids", counted({0, 1, 2, 3, 4})},
          {.name = "position_ids", .value = counted({0, 2, 1, 3, 4}), .refused = true},
          added_bias("attention_bias", 4),
          {"head_sink", numbers({4}, {0.5, -1, 2, 0.25}),
           [](Meaning& m) {
             m.sinks = {0.5, -1, 2, 0.25};
           }},
          {.name = "past_key", .value = onnx::random_value({1, 2, 3, d}, 5), .refused = true},
          {.name = "past_value", .value = onnx::random_value({1, 2, 3, d}, 5), .refused = true},
          {.name = "k_scale", .value = numbers({1}, {1}), .refused = true},
          {.name = "v_scale", .value = numbers({1}, {1}), .refused = true},
          {.name = "q_norm_weight", .value = onnx::random_value({d}, 6), .refused = true},
          {.name = "k_norm_weight", .value = onnx::random_value({d}, 6), .refused = true}};
}

} // namespace

TEST_CASE("every attribute and input of ONNX's attention operators is computed or refused",
          "[io][onnx]") {
  for (const auto& [of, parts] : {std::pair(standard, parts_of_standard()),
                                  {fused, parts_of_fused()},
                                  {multi_head, parts_of_multi_head()},
                                  {grouped, parts_of_grouped()}}) {
    INFO(of.domain << " " << of.op);
    CHECK(judged(of, {}, true) == "");
    CHECK(judged(of, {}) == "");
    for (std::size_t i = 0; i < parts.size(); ++i) {
      INFO(parts[i].name << ", number " << i);
      CHECK(judged(of, {parts[i]}) == "");
      // With another one that is computed, whose meaning it keeps.
      const Part& other = parts[i == 0 ? 1 : 0];
      if (other.name != parts[i].name) CHECK(judged(of, {parts[i], other}) == "");
    }
  }
}

TEST_CASE("attention of other operators is refused by its node's name", "[io][onnx]") {
  for (const auto& [domain, op] : {std::pair("com.microsoft", "PackedAttention"),
                                   {"com.microsoft", "PackedMultiHeadAttention"},
                                   {"com.microsoft", "DecoderMaskedMultiHeadAttention"},
                                   {"com.microsoft", "DecoderMaskedSelfAttention"},
                                   {"com.microsoft", "DecoderAttention"},
                                   {"com.microsoft", "LongformerAttention"},
                                   {"com.microsoft", "SparseAttention"},
                                   {"com.microsoft", "PagedAttention"},
                                   {"ai.onnx.preview", "FlexAttention"},
                                   {"com.example", "Attention"},
                                   {"com.example", "MultiHeadAttention"}}) {
    INFO(op);
    Operator of = multi_head;
    of.domain = domain, of.op = op;
    const onnx::Outcome outcome =
        onnx::outcome_of(made(of, {}, true).graph, onnx::random_value({1, T, D}, 31));
    CHECK_FALSE(outcome.output);
    CHECK_THAT(outcome.said, Catch::Contains(std::string("'/the/") + op + "' (" + op +
                                             ") is not read: it is an operator that is not read"));
  }
}

TEST_CASE("a boolean mask that is an input of the graph is called what it is", "[io][onnx]") {
  for (const auto& [name, dims, said] :
       {std::tuple("attn_mask", onnx::Dims{1, 1, T, T},
                   "attn_mask is a boolean mask of queries and keys"),
        {"attention_mask", {1, T}, "attention_mask is taken as all ones"},
        {"shown", {1, 1, T, T}, "its mask is boolean and made while the model runs"}}) {
    INFO(name);
    Graph graph = made(standard, {}, false).graph;
    onnx::Input mask{name, {}, onnx::boolean};
    for (const std::int64_t length : dims) mask.axes.emplace_back(length);
    graph.inputs.push_back(mask);
    for (onnx::Node& node : graph.nodes)
      if (node.op == "Attention") node.inputs.emplace_back(name);
    CHECK_THAT(onnx::outcome_of(graph, onnx::random_value({1, T, D}, 31)).said,
               Catch::Contains(said));
  }
}
