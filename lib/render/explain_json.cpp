#include <mha/render/explain.hpp>

#include <mha/render/json_text.hpp>
#include <mha/system/characters.hpp>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>

namespace mha::render {

namespace {

using OrderedJson = nlohmann::ordered_json;

/// A number, or a string where it is not finite, since JSON has no number for that.
OrderedJson number(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value < 0 ? "-Infinity" : "Infinity";
  return value;
}

/// float32 results as the shortest decimals that read back to them, not as the doubles they became.
class Numbers {
public:
  explicit Numbers(DType dtype) : single_(dtype == DType::f32) {}

  OrderedJson operator()(double value) const {
    if (!single_ || !std::isfinite(value)) return number(value);
    return std::stod(fmt::format("{}", static_cast<float>(value)));
  }
  OrderedJson list(const std::vector<double>& values) const {
    OrderedJson json = OrderedJson::array();
    for (double value : values) json.push_back((*this)(value));
    return json;
  }

private:
  bool single_;
};

constexpr std::array map_stages{
    std::pair{Stage::scores, "score"},  std::pair{Stage::scaled, "scaled"},
    std::pair{Stage::capped, "capped"}, std::pair{Stage::biased, "biased"},
    std::pair{Stage::masked, "logit"},  std::pair{Stage::shifted, "shifted"},
    std::pair{Stage::exp, "exp"},       std::pair{Stage::weights, "weight"}};

/// Its number where it is one.
OrderedJson layer_of(const std::string& layer) {
  JsonText text;
  text.layer(layer);
  return OrderedJson::parse(text.take());
}

OrderedJson token_of(const std::string& label) {
  return label.empty() ? OrderedJson(nullptr) : OrderedJson(label);
}

OrderedJson keys_json(const Explanation& explanation, const HeadExplanation& head,
                      const Numbers& numbers) {
  OrderedJson keys = OrderedJson::array();
  const bool any_map = head.has(Stage::weights) || logits_stage(head).has_value();
  for (std::size_t j = 0; any_map && j < explanation.key_labels.size(); ++j) {
    OrderedJson key{{"key", j}, {"token", token_of(explanation.key_labels[j])}};
    if (!head.masked.empty()) key["masked"] = head.is_masked(j);
    for (const auto& [stage, name] : map_stages)
      if (head.has(stage)) key[name] = numbers(head.values.at(stage)[j]);
    keys.push_back(std::move(key));
  }
  return keys;
}

OrderedJson head_json(const Explanation& explanation, const HeadExplanation& head,
                      const Numbers& numbers) {
  const Dims& dims = explanation.dims;
  OrderedJson json{{"head", head.head}};
  if (dims.H_kv != 0) json["kv_head"] = head.kv_head;
  for (const Stage stage : explanation.query_steps)
    if (head.has(stage)) json[std::string(name_of(stage))] = numbers.list(head.values.at(stage));
  json["keys"] = keys_json(explanation, head, numbers);
  for (Stage stage : {Stage::row_max, Stage::row_sum, Stage::logsumexp})
    if (head.has(stage)) json[std::string(name_of(stage))] = numbers(head.value(stage));
  if (head.sink) {
    json["sink"] = {{"logit", numbers(head.sink->logit)}};
    if (head.sink->exp) json["sink"]["exp"] = numbers(*head.sink->exp);
    if (head.sink->share) json["sink"]["weight"] = numbers(*head.sink->share);
  }
  if (head.has(Stage::head_out)) {
    json["head_out"] = numbers.list(head.values.at(Stage::head_out));
    json["concat_range"] = {head.head * dims.d_v, (head.head + 1) * dims.d_v};
  }
  for (const Stage stage : {Stage::head_norm, Stage::gate, Stage::gated})
    if (head.has(stage)) json[std::string(name_of(stage))] = numbers.list(head.values.at(stage));
  if (head.has(Stage::head_result))
    json["head_result"] = numbers.list(head.values.at(Stage::head_result));
  if (head.relative_norm) json["relative_norm"] = number(*head.relative_norm);
  if (head.share) json["share"] = number(*head.share);
  for (const Message& note : head.notes) json["notes"].push_back(typed(note));
  return json;
}

/// A line for each member of the outer objects; lists of numbers and keys stay on one line each.
std::string written(const OrderedJson& json, std::size_t depth) {
  const auto is_flat = [](const OrderedJson& value) {
    return std::none_of(value.begin(), value.end(),
                        [](const OrderedJson& item) { return item.is_structured(); });
  };
  // A label may hold bytes that are not UTF-8.
  if (!json.is_structured() || json.empty() || is_flat(json))
    return json.dump(-1, ' ', false, OrderedJson::error_handler_t::replace);
  const std::string indent(2 * depth + 2, ' ');
  std::string text;
  for (const auto& [name, value] : json.items()) {
    text += (text.empty() ? "\n" : ",\n") + indent;
    if (json.is_object()) text += OrderedJson(name).dump() + ": ";
    text += written(value, depth + 1);
  }
  text += "\n" + std::string(2 * depth, ' ');
  return json.is_object() ? "{" + text + "}" : "[" + text + "]";
}

} // namespace

std::string explain_json(const Explanation& explanation, const std::string& layer) {
  const Numbers numbers(explanation.dtype);
  const Dims& dims = explanation.dims;
  OrderedJson json;
  json["layer"] = layer_of(layer);
  if (dims.batched) json["batch"] = explanation.batch;
  json["query"] = explanation.query;
  json["token"] = token_of(explanation.label);
  json["dtype"] = name_of(explanation.dtype);
  json["num_heads"] = dims.H;
  if (dims.H_kv != 0) json["num_kv_heads"] = dims.H_kv;
  if (dims.d_k != 0) json["d_k"] = dims.d_k;
  if (dims.d_v != 0) json["d_v"] = dims.d_v;
  if (explanation.heads.front().has(Stage::scores)) json["scale"] = number(explanation.scale);
  if (explanation.temperature != 1) json["temperature"] = number(explanation.temperature);
  OrderedJson given = OrderedJson::array();
  for (const Stage stage : explanation.given) given.push_back(name_of(stage));
  if (!given.empty()) json["given"] = std::move(given);
  if (explanation.has(Stage::x)) json["x"] = numbers.list(explanation.values.at(Stage::x));
  json["heads"] = OrderedJson::array();
  for (const HeadExplanation& head : explanation.heads)
    json["heads"].push_back(head_json(explanation, head, numbers));
  if (explanation.has(Stage::concat))
    json["concat"] = numbers.list(explanation.values.at(Stage::concat));
  if (!explanation.b_o.empty()) json["b_o"] = numbers.list(explanation.b_o);
  if (explanation.b_o_share) json["b_o_share"] = number(*explanation.b_o_share);
  for (Stage stage : {Stage::output, Stage::residual})
    if (explanation.has(stage))
      json[std::string(name_of(stage))] = numbers.list(explanation.values.at(stage));
  return safe_json(written(json, 0));
}

} // namespace mha::render
