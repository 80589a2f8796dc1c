#include <mha/load/families/description.hpp>

#include <mha/layer/names.hpp>
#include <mha/naming/tensor_names.hpp>
#include <mha/system/parse.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>

namespace mha::naming {

bool is_of_layer(std::string_view key) {
  return !key.starts_with("embed.") && key != "final_norm" && key != "head" &&
         !key.starts_with("head.");
}

bool is_of_mixture(std::string_view key) {
  for (const std::string_view part : {"router.", "experts.", "shared."})
    if (key.starts_with(part)) return true;
  const TensorInfo* const row = find_tensor_of_kind(key);
  return row && row->kind == mixture_kind;
}

bool is_of_attention(std::string_view key) {
  return is_of_layer(key) && !key.starts_with("mlp.") && key != "norm" && key != "post_norm" &&
         !is_of_mixture(key);
}

std::optional<std::string> DescribedValue::value(const Group& group, std::size_t layer) const {
  if (!layers.empty()) {
    if (layer >= layers.size())
      fail("{}: {}, but there is a layer {}", where, counted(layers.size(), "values"), layer);
    return layers[layer].value(group);
  }
  for (const std::string& key : keys)
    if (const auto configured = group.configured(key)) return configured;
  if (constant || keys.empty() || optional) return constant;
  std::vector<std::string_view> names;
  for (const auto& [name, ignored] : *group.config) names.push_back(name);
  fail("{}: config.json has no {}{}{}", where, fmt::join(keys, " and no "),
       did_you_mean(keys[0], names),
       names.empty() ? "; without a config.json the value itself is expected" : "");
}

std::optional<double> DescribedValue::number(const Group& group, std::size_t layer) const {
  if (!group.description)
    for (const std::string& key : keys)
      if (group.configured(key)) {
        group.configured_number({key}); // its error has the details
        break;
      }
  const std::optional<std::string> text = value(group, layer);
  if (!text) return std::nullopt;
  const auto number = parse_number<double>(*text);
  if (!number || !std::isfinite(*number)) fail("{}: '{}': a number expected", where, *text);
  if (positive && !(*number > 0))
    fail("config.json: {} is {}: a number above 0 expected", keys.empty() ? where : keys[0],
         *number);
  return inverse ? 1 / *number : *number;
}

const DescribedTensor* Description::tensor(std::string_view key) const {
  const auto at = tensors.find(std::string(key));
  return at == tensors.end() ? nullptr : &at->second;
}

bool Description::is_users(const DescribedTensor& tensor) const {
  return !is_family || (!own_words.empty() && tensor.where.starts_with(own_words));
}

const DescribedNorm* Description::norm(std::string_view key) const {
  const auto at = norms.find(std::string(key));
  return at == norms.end() ? nullptr : &at->second;
}

bool Description::normalises_before() const {
  return block != BlockShape::post && block != BlockShape::post_inside;
}

Bias BiasRule::of(const Group& group) const {
  if (key.empty()) return fixed;
  return group.is_true({key}, otherwise) ? Bias::always : Bias::never;
}

double epsilon_of(const DescribedNorm& norm, const Group& group) {
  const double eps = norm.eps.number(group).value_or(1e-5);
  return norm.kind == "std" ? eps * eps : eps;
}

} // namespace mha::naming
