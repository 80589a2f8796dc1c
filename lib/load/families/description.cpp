#include <mha/load/families/description.hpp>

#include <mha/layer/names.hpp>
#include <mha/system/parse.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>

namespace mha::naming {

namespace {

/// "mlp.norm" of "described.layers.3.mlp.norm", "final_norm" of "described.final_norm".
std::string_view described_key(std::string_view name) {
  if (name.starts_with(described_model)) name.remove_prefix(described_model.size());
  if (!name.starts_with(described_layers)) return name;
  name.remove_prefix(described_layers.size() + 1);
  return name.substr(name.find('.') + 1);
}

/// The epsilon of a norm. (x − mean) / (s + eps) with the deviation s of n − 1 is the layer norm
/// (x − mean) / √(variance + eps²) · √((n − 1) / n), to eps / s of its value, and exactly that
/// where s is 0; its weight has the root.
double epsilon_of(const DescribedNorm& norm, const Group& group) {
  const double eps = norm.eps.number(group).value_or(1e-5);
  return norm.kind == "std" ? eps * eps : eps;
}

NormKind kind_of_norm(const DescribedNorm& norm) {
  return norm.kind == "rms"     ? NormKind::rms
         : norm.kind == "batch" ? NormKind::affine
                                : NormKind::layer;
}

bool normalises_before_attention(BlockShape shape) {
  return shape != BlockShape::post && shape != BlockShape::post_inside;
}

/// The norm before attention, which is the layer's own.
void translate_norm(const Group& group, const Description& said, Translation& to) {
  const auto at = said.norms.find("norm");
  if (at == said.norms.end() || !normalises_before_attention(said.record.shape)) {
    to.set_post_norm();
    return;
  }
  const DescribedNorm& norm = at->second;
  if (norm.optional && !group.has("norm.weight")) return to.set_post_norm();
  to.norm.kind = kind_of_norm(norm), to.norm.one_plus = norm.one_plus;
  to.norm.file = group.contents->name, to.norm.module = norm.weight;
  to.norm.weight = group.find("norm.weight");
  if (to.norm.kind != NormKind::rms) to.norm.bias = group.find("norm.bias");
  to.norm.needs_weight = norm.affine;
  for (const io::Entry* entry : {to.norm.weight, to.norm.bias})
    if (entry) group.use(*entry);
  if (norm.kind != "batch")
    to.set("input_norm_eps", fmt::format("{}", epsilon_of(norm, group)), said.file);
}

} // namespace

bool is_of_layer(std::string_view key) {
  return !key.starts_with("embed.") && key != "final_norm" && key != "head" &&
         !key.starts_with("head.");
}

std::optional<std::string> DescribedValue::value(const Group& group, std::size_t layer) const {
  if (!layers.empty()) {
    if (layer >= layers.size())
      fail("{}: {}, but there is a layer {}", where, counted(layers.size(), "values"), layer);
    return layers[layer].value(group);
  }
  std::optional<std::string> found;
  for (const std::string& key : keys)
    if (const auto configured = group.configured(key); configured && !found) found = configured;
  if (found) return found;
  if (constant || keys.empty() || optional) return constant;
  std::vector<std::string_view> names;
  for (const auto& [name, of_name] : *group.config) names.push_back(name);
  fail("{}: config.json has no {}{}{}", where, fmt::join(keys, " and no "),
       did_you_mean(keys[0], names),
       names.empty() ? "; without a config.json the value itself is expected" : "");
}

std::optional<double> DescribedValue::number(const Group& group, std::size_t layer) const {
  const std::optional<std::string> text = value(group, layer);
  if (!text) return std::nullopt;
  const auto number = parse_number<double>(*text);
  if (!number || !std::isfinite(*number)) fail("{}: '{}': a number expected", where, *text);
  if (positive && !(*number > 0))
    fail("config.json: {} is {}: a number above 0 expected", keys.empty() ? where : keys[0],
         *number);
  return inverse ? 1 / *number : *number;
}

void translate_described(const Group& group, Translation& to) {
  const Description& said = *group.description;
  const std::size_t layer = group.number().value_or(0);
  for (const auto& [name, entry] : group.tensors)
    if (find_tensor_name(name) && !name.starts_with("norm."))
      to.put(name, group.read(*entry), name);
  if (const auto fused = said.tensors.find("W_qkv");
      fused != said.tensors.end() && group.has("W_qkv"))
    to.set("qkv_order",
           fused->second.by_head ? "per_group"
                                 : fmt::format("{}", fmt::join(fused->second.split, "")),
           said.file);
  for (const auto& [name, setting] : said.settings)
    if (const auto value = setting.value(group, layer))
      to.set(name, *value,
             setting.keys.empty() || value == setting.constant ? said.file : "config.json");
  translate_norm(group, said, to);
}

void settle_described(const Group& group, ModelRecord& record) {
  const Description& said = *group.description;
  if (!record.mlp_out.empty()) said.activation.value(group);
  if (said.token_scale.said()) {
    const std::optional<std::string> scale = said.token_scale.value(group);
    if (scale == "sqrt_d_model")
      record.times_root_d = true, record.rounds_root_d = false;
    else
      record.embedding_scale = said.token_scale.number(group).value_or(1);
  }
  if (said.first_position.said()) {
    const double first = said.first_position.number(group).value_or(0);
    if (!(first >= 0 && first <= 1e9) || first != std::floor(first))
      fail("{}: the first position is {}: a whole number from 0 on, or \"pad\" expected",
           said.first_position.where, first);
    record.first_position = static_cast<std::size_t>(first);
  }
  record.softcap = said.softcap.number(group).value_or(0);
  record.head_scale = said.head_scale.number(group).value_or(1);
  record.residual_scale = said.residual_scale.number(group).value_or(1);
  if (const auto causal = said.settings.find("causal"); causal != said.settings.end())
    record.causal = causal->second.value(group) == "true" || causal->second.value(group) == "1";
  else
    record.causal = false;
}

void form_described_norm(const Group& group, std::string_view name, Norm& norm, bool& bare) {
  const Description& said = *group.description;
  const DescribedNorm& described = said.norms.at(std::string(described_key(name)));
  const NormKind kind = kind_of_norm(described);
  norm.kind = kind == NormKind::rms      ? InputNorm::rms
              : kind == NormKind::affine ? InputNorm::affine
                                         : InputNorm::layer;
  norm.one_plus = described.one_plus;
  if (described.kind != "batch") norm.eps = epsilon_of(described, group);
  bare = !described.affine && described.kind != "batch";
}

} // namespace mha::naming
