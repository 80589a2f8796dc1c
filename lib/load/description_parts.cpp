#include <mha/load/description_parts.hpp>

#include <mha/layer/names.hpp>
#include <mha/load/described_names.hpp>
#include <mha/naming/tensor_names.hpp>
#include <mha/system/named.hpp>
#include <mha/system/one_of.hpp>
#include <mha/system/words.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

namespace mha::description {

using naming::DescribedNorm;
using naming::DescribedTensor;
using naming::DescribedValue;

namespace {

/// Inputs of a layer, and tensors that follow from norms and settings: not in `tensors`.
constexpr std::string_view other_tensors[]{"X",
                                           "X_kv",
                                           "X_k",
                                           "X_v",
                                           "Q",
                                           "K",
                                           "V",
                                           "k_past",
                                           "v_past",
                                           "mask",
                                           "block_mask",
                                           "key_padding_mask",
                                           "attention_mask",
                                           "kv_lengths",
                                           "cu_seqlens",
                                           "cu_seqlens_k",
                                           "positions",
                                           "norm.weight",
                                           "norm.bias"};

bool is_among(std::string_view key, std::span<const Key> keys) {
  return find_named(keys, key) != nullptr;
}

std::vector<std::string_view> all_tensor_keys() {
  std::vector<std::string_view> names = names_of_rows(tensor_names());
  std::erase_if(names, [](std::string_view name) { return is_one_of(name, other_tensors); });
  for (const TensorInfo& info : tensors_of_kinds()) add_once(names, info.name);
  for (const Key& key : layer_tensor_keys) names.push_back(key.name);
  for (const Key& key : layer_norm_keys) names.push_back(key.name);
  names.push_back("q_norm"), names.push_back("k_norm");
  return names;
}

/// The keys of config.json that "config:A|B" names.
std::vector<std::string> config_keys(const JsonTree& tree, std::string_view text) {
  std::vector<std::string> keys;
  for (std::string_view key : split_at(text, '|')) {
    if (key.empty()) tree.refuse("a key of config.json is expected after \"config:\"");
    keys.emplace_back(key);
  }
  return keys;
}

std::string constant_of(const JsonTree& tree, std::string_view what) {
  if (!tree.is_number() && !tree.is_boolean() && !tree.is_text())
    tree.refuse(fmt::format("{} must be a number, true, false, text, \"config:KEY\" or "
                            "{{\"config\": KEY, \"default\": VALUE}}",
                            what));
  return tree.text;
}

/// The parts that may be side by side under a key, and whether all of them must be.
struct Splits {
  std::string_view key, parts;
  bool all = true;
};
constexpr Splits splits[]{{"W_qkv", "q,k,v"},
                          {"W_kv", "k,v"},
                          {"W_qk", "q,k"},
                          {"mlp.in_up", "in,up"},
                          {"experts.in_up", "in,up"},
                          {"shared.in_up", "in,up"},
                          {"W_q", "q,gate"},
                          {"W_mixer", "q,k,v,gate,beta,decay", false},
                          {"W_rates", "beta,decay"},
                          {"conv", "q,k,v", false}};

const Splits* splits_of(std::string_view key) {
  const auto at = std::ranges::find(splits, key, &Splits::key);
  return at == std::end(splits) ? nullptr : at;
}

/// Reads "q,k,v": each part that `key` may hold at most once.
std::vector<std::string> split_of(const JsonTree& tree, const std::string& key) {
  const Splits* const row = splits_of(key);
  if (!row)
    tree.refuse(
        fmt::format("{} is one tensor: split is only for W_qkv, W_kv, W_qk and mlp.in_up", key));
  std::vector<std::string> parts, sorted;
  for (std::string_view part : split_at(tree.as_text("split"), ','))
    std::erase(parts.emplace_back(part), ' ');
  sorted = parts;
  std::ranges::sort(sorted);
  std::vector<std::string_view> all = split_at(row->parts, ',');
  std::ranges::sort(all);
  const bool fits = row->all ? std::ranges::equal(sorted, all)
                             : std::ranges::includes(all, sorted) && sorted.size() > 1;
  if (!fits)
    tree.refuse(fmt::format("split is '{}': {}{} expected, in the order of the rows", tree.text,
                            row->all ? "" : "some of ", row->parts));
  return parts;
}

std::vector<std::string> usual_split(const std::string& key) {
  if (key == "W_qkv") return {"q", "k", "v"};
  if (key == "W_kv") return {"k", "v"};
  if (key == "W_qk") return {"q", "k"};
  if (key == "W_rates") return {"beta", "decay"};
  if (key.ends_with(".in_up")) return {"in", "up"};
  return {};
}

/// Reads how the parts of a tensor are side by side.
void take_order(const JsonTree& by, DescribedTensor& tensor) {
  const std::string& text = by.as_text("by");
  const std::string_view other = tensor.key == "experts.in_up" ? "row" : "head";
  if (text != "block" && text != other)
    by.refuse(fmt::format("by is '{}': block or {} expected", text, other));
  if (tensor.split.empty() || tensor.key.starts_with("mlp."))
    by.refuse("by is only for W_qkv, W_kv and W_qk, whose parts are side by side");
  tensor.by_head = text == "head", tensor.by_row = text == "row";
}

/// The number of groups side by side, each with all parts of the tensor.
std::size_t groups_of(const JsonTree& groups, const DescribedTensor& tensor) {
  const double count = groups.as_number("groups");
  if (tensor.split.empty() || tensor.key.starts_with("mlp.") || tensor.by_head)
    groups.refuse("groups is only for W_qkv, W_kv and W_qk without by");
  constexpr double most = 4096;
  if (!(count >= 1 && count <= most) || count != std::floor(count))
    groups.refuse(fmt::format("groups is {}: a whole number from 1 to {} expected", count, most));
  return static_cast<std::size_t>(count);
}

} // namespace

void require_known(const JsonTree& tree, std::string_view what, std::span<const Key> known) {
  if (!tree.is_object()) tree.refuse(fmt::format("{} must be an object", what));
  const std::vector<std::string_view> names = names_of_rows(known);
  for (const auto& [key, value] : tree.members)
    if (!is_among(key, known)) {
      const std::string meant = did_you_mean(key, names);
      value.refuse(
          fmt::format("'{}' is not a key of {}{}", key, what,
                      meant.empty() ? fmt::format(": {}", fmt::join(names, ", ")) : meant));
    }
}

DescribedValue value_of(const JsonTree& tree, std::string_view what, bool by_layer) {
  DescribedValue value;
  value.where = tree.where;
  if (tree.is_list() && by_layer) {
    for (const JsonTree& element : tree.elements) value.layers.push_back(value_of(element, what));
    if (value.layers.empty()) tree.refuse(fmt::format("{} is an empty list", what));
    return value;
  }
  constexpr std::string_view config = "config:";
  if (tree.is_object()) {
    require_known(tree, what, value_keys);
    const JsonTree *key = tree.find("config"), *otherwise = tree.find("default");
    if (!key && !tree.find("from"))
      tree.refuse(fmt::format("{} is an object without \"config\"", what));
    if (key) value.keys = config_keys(*key, key->as_text("config"));
    if (otherwise) value.constant = constant_of(*otherwise, "default");
    const auto is_set = [&](const char* flag) {
      const JsonTree* member = tree.find(flag);
      return member && member->as_boolean(flag);
    };
    value.optional = is_set("optional");
    value.inverse = is_set("inverse"), value.positive = is_set("positive");
    if (const JsonTree* from = tree.find("from")) value.from = from->as_text("from");
  } else if (tree.is_text() && tree.text.starts_with(config)) {
    value.keys = config_keys(tree, std::string_view(tree.text).substr(config.size()));
  } else {
    value.constant = constant_of(tree, what);
  }
  return value;
}

const std::string& name_of(const JsonTree& tree, std::string_view what) {
  const std::string& name = tree.as_text(what);
  if (const std::string mark = unknown_mark(name); !mark.empty())
    tree.refuse(fmt::format(
        "'{}' in '{}': {{layer}}, {{layer+1}}, {{2*layer+1}} or {{head}} expected", mark, name));
  return name;
}

std::string layout_of(const JsonTree& tree, std::size_t most) {
  std::string letters = tree.as_text("layout");
  std::ranges::replace(letters, 'e', 'h'); // experts are stored as heads are
  std::string sorted = letters;
  std::ranges::sort(sorted);
  if (sorted != "io" && !(sorted == "hio" && most == 3))
    tree.refuse(fmt::format("layout is '{}': oi (as nn.Linear stores it) or io expected{}",
                            tree.text, most == 3 ? ", or three letters with h of the heads" : ""));
  return letters;
}

std::string bias_of(const JsonTree& tree) {
  if (tree.is_boolean() && !tree.is_true()) return "";
  return name_of(tree, "bias");
}

naming::DescribedSinusoid sinusoid_of(const JsonTree& step) {
  naming::DescribedSinusoid sinusoid;
  const JsonTree& style = *step.find("sinusoid");
  sinusoid.where = fmt::format("{}: \"sinusoid\"", style.where);
  const std::string& text = style.as_text("sinusoid");
  if (text != "interleaved" && text != "half")
    style.refuse(fmt::format("sinusoid is '{}': interleaved or half expected", text));
  sinusoid.halves = text == "half";
  if (const JsonTree* flag = step.find("inclusive"))
    sinusoid.inclusive = flag->as_boolean("inclusive");
  if (const JsonTree* base = step.find("base")) sinusoid.base = value_of(*base, "base");
  if (const JsonTree* length = step.find("length")) sinusoid.length = value_of(*length, "length");
  for (const char* other : {"by", "layout", "bias"})
    if (const JsonTree* member = step.find(other))
      member->refuse(
          fmt::format("{} is only for a table or a linear map; sinusoid is computed", other));
  return sinusoid;
}

bool is_setting(std::string_view name) {
  return name != "input_norm" && name != "input_norm_eps" && name != "qkv_order" &&
         name != "columns" && name != "residual";
}

bool is_tensor_key(std::string_view key) {
  if (is_among(key, layer_tensor_keys) || key == "q_norm" || key == "k_norm") return true;
  if (find_tensor_of_kind(key)) return true;
  const TensorInfo* info = find_tensor_name(key);
  return info && info->name == key && !is_one_of(key, other_tensors);
}

void refuse_tensor_key(const JsonTree& tree, std::string_view key) {
  const std::vector<std::string_view> names = all_tensor_keys();
  const std::string meant = did_you_mean(key, names);
  tree.refuse(fmt::format("'{}' is not a tensor of a layer{}", key,
                          meant.empty() ? fmt::format(": {}", fmt::join(names, ", ")) : meant));
}

std::string_view layout_of_key(std::string_view key) {
  if (key.starts_with("W_") || key.starts_with("index.W_")) return "oi";
  const std::string_view module = key.substr(0, key.find('.')), own = last_part(key);
  return is_one_of(module, {"mlp", "experts", "shared"}) &&
                 is_one_of(own,
                           {"in", "up", "in_up", "out", "out_stacked", "layer_in", "layer_out"})
             ? "oi"
             : "";
}

DescribedTensor Parse::tensor_named(const std::string& key, const JsonTree& name) const {
  DescribedTensor tensor;
  tensor.key = key, tensor.where = fmt::format("{}: \"{}\"", name.where, key);
  tensor.name = name_of(name, "a tensor's name");
  if (tensor.name.empty()) name.refuse("a tensor's name is empty");
  tensor.split = usual_split(key);
  return tensor;
}

DescribedTensor Parse::tensor(const std::string& key, const JsonTree& tree,
                              std::string_view layout) const {
  DescribedTensor tensor;
  const Splits* const row = splits_of(key);
  const auto require_split = [&] {
    if (row && !row->all && tensor.split.empty())
      tree.refuse(fmt::format("\"{}\" needs its split: some of {}", key, row->parts));
  };
  if (!tree.is_object()) {
    tensor = tensor_named(key, tree);
    tensor.layout = layout;
    require_split();
    return tensor;
  }
  require_known(tree, fmt::format("\"{}\"", key), tensor_keys);
  const JsonTree *name = tree.find("name"), *values = tree.find("values");
  if ((name != nullptr) == (values != nullptr))
    tree.refuse(fmt::format("\"{}\" needs {}", key,
                            name ? "a name or values, not both" : "the name of its tensor"));
  if (name) tensor = tensor_named(key, *name);
  tensor.key = key, tensor.where = fmt::format("{}: \"{}\"", tree.where, key);
  tensor.layout = layout;
  if (values) {
    if (!values->is_list()) values->refuse("values must be a list of numbers");
    for (const JsonTree& element : values->elements)
      tensor.values.push_back(element.as_number("a value"));
    if (tensor.values.empty()) values->refuse("values is an empty list");
  }
  if (const JsonTree* member = tree.find("layout")) {
    if (layout.empty())
      member->refuse(fmt::format("{} is not a linear map: it has no layout", key));
    const bool stacks =
        key.starts_with("experts.") || (key.starts_with("W_") && tensor.split.empty());
    tensor.layout = layout_of(*member, stacks ? 3 : 2);
  }
  if (const JsonTree* split = tree.find("split")) tensor.split = split_of(*split, key);
  require_split();
  if (const JsonTree* by = tree.find("by")) take_order(*by, tensor);
  if (const JsonTree* groups = tree.find("groups")) tensor.groups = groups_of(*groups, tensor);
  if (const JsonTree* bias = tree.find("bias"))
    if (!(tensor.needs_bias = bias->is_true())) tensor.bias = bias_of(*bias);
  if (const JsonTree* times = tree.find("times")) {
    if (layout_of_key(key).empty())
      times->refuse(
          fmt::format("{} has no outputs to be multiplied: times is only for the matrices of a "
                      "layer",
                      key));
    tensor.times = name_of(*times, "times");
  }
  if (const JsonTree* optional = tree.find("optional"))
    tensor.optional = optional->as_boolean("optional");
  return tensor;
}

void Parse::norm_form(const std::string& key, const JsonTree& tree, DescribedNorm& to) const {
  if (const JsonTree* kind = tree.find("kind")) {
    to.kind = kind->as_text("kind");
    if (to.kind != "layer" && to.kind != "std" && to.kind != "rms" && to.kind != "batch" &&
        to.kind != "none")
      kind->refuse(fmt::format("kind is '{}': layer, std, rms, batch or none expected", to.kind));
  }
  if (const JsonTree* eps = tree.find("eps")) to.eps = value_of(*eps, "eps");
  if (const JsonTree* flag = tree.find("one_plus")) to.one_plus = flag->as_boolean("one_plus");
  if (const JsonTree* flag = tree.find("affine")) to.affine = flag->as_boolean("affine");
  if (to.one_plus && (to.kind == "batch" || to.kind == "std" || !to.affine))
    tree.refuse(fmt::format("{}: one_plus is only for layer and rms norms with a weight", key));
}

DescribedNorm Parse::norm(const std::string& key, const JsonTree& tree) const {
  DescribedNorm norm = form;
  norm.key = key, norm.where = fmt::format("{}: \"{}\"", tree.where, key);
  norm.statistics.key = key, norm.statistics.where = norm.where;
  if (tree.is_object()) {
    std::vector<Key> keys(norm_form_keys.begin(), norm_form_keys.end());
    keys.insert(keys.end(), norm_keys.begin(), norm_keys.end());
    require_known(tree, fmt::format("\"{}\"", key), keys);
    norm_form(key, tree, norm);
    const auto text = [&](const char* name) {
      const JsonTree* member = tree.find(name);
      return member ? name_of(*member, name) : std::string();
    };
    norm.weight = text("weight");
    if (const JsonTree* bias = tree.find("bias")) norm.bias = bias_of(*bias);
    if (const JsonTree* optional = tree.find("optional"))
      norm.optional = optional->as_boolean("optional");
    if (const JsonTree* scale = tree.find("scale")) norm.scale = value_of(*scale, "scale");
    norm.statistics.name = text("mean");
    if (tree.find("variance")) norm.statistics.bias = text("variance");
  } else {
    norm.weight = name_of(tree, fmt::format("\"{}\"", key));
  }
  if (norm.kind.empty())
    tree.refuse(fmt::format("\"{}\": which kind? \"norm\": {{\"kind\": \"layer\"}} beside "
                            "tensors, or kind here: layer, std, rms, batch or none",
                            key));
  if (norm.kind == "none") return norm;
  if (norm.affine == norm.weight.empty() && !may_lack_weights &&
      !(norm.kind == "batch" && !norm.affine))
    tree.refuse(norm.affine ? fmt::format("\"{}\" needs the name of its weight, or \"affine\": "
                                          "false",
                                          key)
                            : fmt::format("\"{}\" has a weight, though affine is false", key));
  if (norm.kind == "rms" && norm.bias && !norm.bias->empty())
    tree.refuse(fmt::format("\"{}\": an rms norm has no bias", key));
  if (norm.kind != "batch" && (tree.find("mean") || tree.find("variance")))
    tree.refuse(fmt::format("\"{}\": only a batch norm has mean and variance", key));
  if (norm.kind == "batch" && !norm.affine &&
      (norm.statistics.name.empty() || !norm.statistics.bias))
    tree.refuse(fmt::format("\"{}\" needs the names of its mean and variance", key));
  return norm;
}

} // namespace mha::description
