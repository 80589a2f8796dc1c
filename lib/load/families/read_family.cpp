// A layer, and what stands around it, read as a family's file says.

#include <mha/load/families/family_text.hpp>

#include <mha/layer/names.hpp>
#include <mha/load/described_names.hpp>
#include <mha/load/described_tensors.hpp>
#include <mha/load/families/condition.hpp>
#include <mha/load/families/steps.hpp>
#include <mha/load/model_reader.hpp>
#include <mha/system/named.hpp>
#include <mha/system/parse.hpp>
#include <mha/system/words.hpp>

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

namespace mha::naming {

namespace {

class LayerReader {
public:
  LayerReader(const Description& said, const Group& group, Translation& to)
      : said_(said), group_(group), to_(to) {}

  void read() {
    for (const Message& why : said_.refusals) fail("{}: {}", group_.contents->name, why);
    for (const DescribedTensor* tensor : attention_in_order()) take(*tensor);
    for (const auto& [name, value] : said_.settings) set(name, value);
    for (const std::string& key : said_.known_keys) group_.says(key);
    to_.notes.insert(to_.notes.end(), said_.notes.begin(), said_.notes.end());
    for (const DescribedStep& step : said_.steps) {
      const LayerStep* const known = find_named(layer_steps(), step.name);
      if (!known) step.arguments.refuse(fmt::format("there is no step '{}'", step.name));
      known->take(to_, step.arguments);
    }
    take_norm();
  }

private:
  /// In the order of the table of tensors: of several that are wrong the first is named.
  std::vector<const DescribedTensor*> attention_in_order() const {
    std::vector<const DescribedTensor*> list;
    for (const auto& [key, tensor] : said_.tensors)
      if (is_of_layer(key) && !key.starts_with("mlp.")) list.push_back(&tensor);
    std::ranges::stable_sort(
        list, {}, [](const DescribedTensor* tensor) { return find_tensor_name(tensor->key); });
    return list;
  }

  /// The first of a|b that the module has.
  std::string name_in_module(const std::string& names) const {
    for (std::string_view name : split_at(names, '|'))
      if (group_.has(name)) return std::string(name);
    return "";
  }

  void take(const DescribedTensor& tensor) {
    const std::string name = name_in_module(tensor.name);
    if (name.empty()) return;
    if (!tensor.key.starts_with("W_")) {
      if (tensor.key != "q_norm" && tensor.key != "k_norm") return to_.take(tensor.key, name);
      to_.take(tensor.key + ".weight", name), to_.take(tensor.key + ".bias", bias_beside(name));
      return;
    }
    if (tensor.groups > 0) return take_groups(tensor, name);
    if (tensor.layout == "oi")
      to_.take_linear(tensor.key, name);
    else if (tensor.layout == "iho" && group_.shape(name).size() == 3)
      to_.put(tensor.key, permuted(to_.read(name), {1, 0, 2}), name);
    else
      to_.take(tensor.key, name);
    if (tensor.key == "W_qkv")
      to_.set("qkv_order",
              tensor.by_head ? "per_group" : fmt::format("{}", fmt::join(tensor.split, "")));
    take_bias(tensor, tensor.bias ? name_in_module(*tensor.bias) : bias_beside(name));
  }

  /// The parts of one tensor whose outputs lie in groups side by side, each with all parts.
  void take_groups(const DescribedTensor& tensor, const std::string& name) {
    const Shape shape = group_.shape(name);
    if (shape.size() != 2 || shape[0] % (tensor.split.size() * tensor.groups) != 0)
      fail("{} is {}: rows for {} blocks of queries, values and keys expected", to_.source_of(name),
           to_string(shape), tensor.groups);
    const io::Entry turned = turned_entry(*group_.find(name), tensor.layout, "io");
    const std::vector<std::size_t> sizes(tensor.split.size(), 1);
    for (std::size_t i = 0; i < sizes.size(); ++i)
      to_.put("W_" + tensor.split[i], group_.read(grouped_entry(turned, tensor.groups, sizes, i)),
              name);
  }

  void take_bias(const DescribedTensor& tensor, const std::string& name) {
    if (name.empty()) return;
    const BiasRule& rule = tensor.key == "W_o" ? said_.output_bias : said_.qkv_bias;
    const Bias wanted = rule.of(group_);
    const bool there = group_.has(name);
    const auto config_says = [&](std::string_view otherwise) {
      return group_.configured(rule.key) ? std::string_view(rule.key) : otherwise;
    };
    if (wanted == Bias::always && !there)
      fail("{}: {}{} is missing, {}", group_.contents->name, group_.prefix, name,
           rule.key.empty() ? std::string("which models of this kind have")
                            : fmt::format("though config.json says {}", config_says("no other")));
    if (wanted == Bias::never && there)
      return to_.pass_over_with_warning(
          name,
          rule.key.empty()
              ? std::string("models of this kind have none")
              : fmt::format("config.json {} {}",
                            group_.configured(rule.key) ? "denies" : "does not say", rule.key));
    to_.take("b" + tensor.key.substr(1), name);
  }

  void set(const std::string& name, const DescribedValue& value) {
    const std::vector<std::string_view> keys(value.keys.begin(), value.keys.end());
    if (!keys.empty() && to_.set_from_config(name, keys)) return;
    if (value.constant)
      to_.set(name, *value.constant, value.from);
    else if (!value.optional)
      value.value(group_, group_.number().value_or(0));
  }

  /// What stands before the names of a norm: the block's prefix, attention's, or what is above it.
  std::string whole_module(std::string_view name) const {
    for (const auto& [mark, prefix] :
         {std::pair<std::string_view, std::string>(attention_mark, group_.prefix),
          {above_mark, group_.parent()}})
      if (name.starts_with(mark)) return prefix + std::string(name.substr(mark.size()));
    const std::string block = block_prefix(group_, said_.record.layers);
    return (block.empty() ? group_.parent(said_.attention_depth) : block) + std::string(name);
  }

  void take_norm() {
    const bool after =
        said_.record.shape == BlockShape::post || said_.record.shape == BlockShape::post_inside;
    const auto at = said_.norms.find("norm");
    if (after || (said_.norm_is_said && at == said_.norms.end())) return to_.set_post_norm();
    if (at == said_.norms.end()) return;
    const DescribedNorm& norm = at->second;
    std::vector<std::string> modules;
    for (std::string_view name : split_at(norm.weight, '|')) modules.push_back(whole_module(name));
    const double eps =
        norm.eps.constant ? parse_number<double>(*norm.eps.constant).value_or(1e-5) : 1e-5;
    const std::vector<std::string_view> keys(norm.eps.keys.begin(), norm.eps.keys.end());
    to_.normalises(norm.kind == "rms" ? NormKind::rms : NormKind::layer, modules, keys, eps);
    to_.norm.one_plus = norm.one_plus, to_.norm.needs_weight = norm.affine;
  }

  const Description& said_;
  const Group& group_;
  Translation& to_;
};

} // namespace

Bias BiasRule::of(const Group& group) const {
  if (key.empty()) return fixed;
  return group.is_true({key}, otherwise) ? Bias::always : Bias::never;
}

void translate_family(const Description& said, const Group& group, Translation& to) {
  LayerReader(said, group, to).read();
}

ModelRecord settled_record(const Description& said, const Group& group) {
  for (const Message& why : said.refusals) fail("{}: {}", group.contents->name, why);
  ModelRecord record = said.record;
  for (const std::string& key : said.known_keys) group.says(key);
  record.mlp_bias = said.mlp_bias.of(group), record.norm_bias = said.norm_bias.of(group);
  if (said.token_scale.said()) {
    const std::optional<std::string> scale = said.token_scale.value(group);
    record.times_root_d = scale == "sqrt_d_model" || scale == "rounded_sqrt_d_model";
    record.rounds_root_d = scale == "rounded_sqrt_d_model";
    if (!record.times_root_d) record.embedding_scale = said.token_scale.number(group).value_or(1);
  }
  if (said.first_position.said())
    record.first_position = static_cast<std::size_t>(said.first_position.number(group).value_or(0));
  record.head_scale = said.head_scale.number(group).value_or(1);
  record.residual_scale = said.residual_scale.number(group).value_or(1);
  for (const DescribedStep& step : said.model_steps) {
    const ModelStep* const known = find_named(model_steps(), step.name);
    if (!known) step.arguments.refuse(fmt::format("there is no step '{}'", step.name));
    known->settle(group, record, step.arguments);
  }
  return record;
}

bool is_of(const Family& family, const Group& group) {
  return is_recognised(family, group);
}

void translate(const Family& family, const Group& group, Translation& to) {
  if (group.description) return translate_described(group, to);
  translate_family(said_of(family, group, false), group, to);
}

bool has_whole_model(const Family& family) {
  return !family.whole_models.empty();
}

std::string_view whole_models_of(const Family& family) {
  return family.whole_models == "*" ? "" : family.whole_models;
}

ModelRecord record_of(const Family& family, const Group& group) {
  if (!group.description) return settled_record(said_of(family, group, true), group);
  ModelRecord record = group.description->record;
  settle_described(group, record);
  return record;
}

std::string_view layers_of(const Family& family, const Group& group) {
  return group.description ? group.description->record.layers : layers_in(family);
}

} // namespace mha::naming
