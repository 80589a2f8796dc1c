// Reads a layer and the parts around it by a family's file.

#include <mha/load/families/family_text.hpp>

#include <mha/layer/names.hpp>
#include <mha/load/described_file.hpp>
#include <mha/load/described_names.hpp>
#include <mha/load/families/condition.hpp>
#include <mha/load/families/input_norm.hpp>
#include <mha/load/families/kinds.hpp>
#include <mha/load/families/steps.hpp>
#include <mha/naming/tensor_names.hpp>
#include <mha/system/named.hpp>
#include <mha/system/one_of.hpp>
#include <mha/system/parse.hpp>
#include <mha/system/words.hpp>

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

namespace mha::naming {

namespace {

/// The layout of several projections in the columns of one tensor.
struct SideBySide {
  std::size_t groups = 1;         ///< each has columns of all parts
  std::vector<std::size_t> sizes; ///< number of heads of each part in a group
};

class LayerReader {
public:
  LayerReader(const Description& description, const Group& group, LayerReading& to)
      : description_(description), group_(group), to_(to), file_(description, group) {}

  void read() {
    for (const Message& why : description_.refusals) fail("{}: {}", group_.contents->name, why);
    read_tensors();
    const bool computed = kind_of(to_.of_kinds, to_.parts.empty()).empty();
    for (const auto& [name, value] : description_.settings)
      if (computed || !find_setting(name)) set(name, value);
    for (const std::string& key : description_.known_keys) group_.has_key(key);
    to_.notes.insert(to_.notes.end(), description_.notes.begin(), description_.notes.end());
    if (!computed) return;
    for (const DescribedStep& step : description_.steps)
      find_named(layer_steps(), step.name)->take(to_, step.arguments);
    take_input_norm(description_, group_, file_, width_, to_);
    const auto keys = description_.settings.find("keys");
    if (keys != description_.settings.end() &&
        keys->second.value(group_, group_.number().value_or(0)) == "earlier")
      leave_out_keys();
  }

  void read_tensors() {
    if (!description_.is_family) width_ = file_.stream_width().value_or(0);
    for (const DescribedTensor* tensor : attention_in_order()) take(*tensor);
    const bool leaves = to_.leaves_mixtures && description_.is_family;
    for (const auto& [key, tensor] : description_.tensors)
      if (!leaves && is_of_mixture(key)) take(tensor);
    if (to_.parts.empty() && !has_mixer(to_.of_kinds)) take_feed_forward();
    require_sizes_of_kinds(description_, group_, to_);
  }

  /// Reads the norm before attention, and checks its tensors against the width of the stream.
  void read_norm() {
    const DescribedNorm* const norm = description_.norm("norm");
    if (norm && description_.normalises_before())
      take_norm_tensors(*norm, description_, file_, width_, to_);
  }

private:
  /// Keys and values are those of an earlier layer, after their norms and rotation. The file may
  /// hold maps for them, which nothing multiplies with.
  void leave_out_keys() {
    if (to_.parts.contains("W_qkv"))
      fail("{}: layer {} takes the keys of an earlier one, but its maps are one tensor: W_q by "
           "itself expected",
           group_.contents->name, group_.number().value_or(0));
    for (const char* name :
         {"W_k", "b_k", "W_v", "b_v", "k_norm.weight", "k_norm.bias", "v_norm.weight"})
      to_.parts.erase(name);
    to_.missing = {{Stage::k_rope, Stage::v_norm},
                   message("its keys and values are those of an earlier layer: give a text, or "
                           "both tensors, <k_rope=FILE> <v_norm=FILE>")};
  }

  /// Attention's tensors in the order of the table of tensors, so that the first wrong one is
  /// named.
  std::vector<const DescribedTensor*> attention_in_order() const {
    std::vector<const DescribedTensor*> list;
    for (const auto& [key, tensor] : description_.tensors)
      if (is_of_attention(key)) list.push_back(&tensor);
    std::ranges::stable_sort(
        list, {}, [](const DescribedTensor* tensor) { return find_tensor_name(tensor->key); });
    return list;
  }

  /// The first name in a|b that the module has.
  std::string name_in_module(const std::string& names) const {
    for (std::string_view name : split_at(names, '|'))
      if (group_.has(name)) return std::string(name);
    return "";
  }

  /// Takes the tensors of a layer that is only a feed-forward.
  void take_feed_forward() {
    for (const auto& [key, tensor] : description_.tensors)
      if (const io::Entry* const stored = key.starts_with("mlp.") ? file_.weight(tensor) : nullptr)
        if (!tensor.layout.empty()) keep(key, file_.matrix(tensor), *stored);
  }

  void keep(const std::string& name, const io::Entry& entry, const io::Entry& stored) {
    group_.use(stored);
    to_.of_kinds.push_back({name, entry, to_.source_of(stored)});
  }

  void put(const std::string& canonical, const io::Entry& entry, const io::Entry& stored) {
    if (constexpr std::string_view all = "experts.out_stacked"; canonical.starts_with(all))
      return keep("experts.out" + canonical.substr(all.size()), entry, stored);
    const TensorInfo* const of_kind = find_tensor_of_kind(canonical);
    if (of_kind && !of_kind->kind.empty()) return keep(canonical, entry, stored);
    to_.put(canonical, group_.read(entry), stored);
  }

  void take(const DescribedTensor& tensor) {
    if (!tensor.values.empty()) {
      const io::Entry values = values_entry(description_.file, tensor.values);
      return put(tensor.key, values, values);
    }
    const io::Entry* const stored = file_.weight(tensor);
    if (!stored && (tensor.optional || !description_.is_users(tensor))) return;
    if (tensor.layout.empty()) return take_other(tensor);
    const io::Entry W = file_.matrix(tensor);
    const std::optional<io::Entry> b = bias_of(tensor, W);
    const std::string bias_key =
        tensor.key.starts_with("W_") ? "b" + tensor.key.substr(1) : tensor.key + ".bias";
    const bool whole = (tensor.split.empty() || tensor.key == "W_qkv") && tensor.groups == 0 &&
                       (!tensor.by_head || tensor.split == std::vector<std::string>{"q", "k", "v"});
    if (!whole) return take_split(tensor, W, b, *stored);
    put(tensor.key, W, *stored);
    if (b) put(bias_key, *b, *file_.bias(tensor));
    if (tensor.key != "W_qkv") return;
    to_.set("qkv_order",
            tensor.by_head ? "per_group" : fmt::format("{}", fmt::join(tensor.split, "")),
            description_.file);
    to_.note_result({{}, {Stage::q, Stage::k, Stage::v}, 0, 1, {}}, *stored);
  }

  /// Takes separately described biases, norms of queries and keys, and sinks as stored.
  void take_other(const DescribedTensor& tensor) {
    const io::Entry &stored = *file_.weight(tensor), as_stored = file_.as_stored(tensor);
    const io::Entry entry = tensor.key == "router_bias" // (1, E) in some files
                                ? reshaped_entry(as_stored, {mha::count_of(as_stored.shape)})
                                : as_stored;
    if (tensor.key.starts_with("conv")) return take_convolution(tensor, entry, stored);
    if (tensor.key != "q_norm" && tensor.key != "k_norm") return put(tensor.key, entry, stored);
    put(tensor.key + ".weight", entry, stored);
    if (const auto bias = file_.bias_of(tensor))
      put(tensor.key + ".bias", *bias, *file_.bias(tensor));
  }

  /// A depthwise convolution: (channels, 1, taps) in files.
  void take_convolution(const DescribedTensor& tensor, const io::Entry& entry,
                        const io::Entry& stored) {
    const Shape shape = squeezed(entry.shape, 2);
    const io::Entry W = reshaped_entry(entry, shape);
    const std::optional<io::Entry> b = file_.bias_of(tensor);
    if (tensor.split.empty()) {
      put(tensor.key, W, stored);
      if (b) put(tensor.key + ".bias", *b, *file_.bias(tensor));
    } else if (shape.size() == 2) {
      take_split(tensor, turned_entry(W, "oi", "io"), b, stored);
    }
  }

  std::optional<io::Entry> bias_of(const DescribedTensor& tensor, const io::Entry& W) {
    const TensorInfo* const row = find_tensor_of_kind(tensor.key);
    if (is_one_of(tensor.key, {"W_mixer", "W_rates"}) || is_of_mixture(tensor.key) ||
        (row && !row->kind.empty()))
      return file_.bias_of(tensor);
    if (description_.is_family) return bias_by_rule(tensor);
    require_width(tensor, W);
    // A separately described bias is one that layers may lack, or is given as values.
    if (description_.tensor("b" + tensor.key.substr(1))) return std::nullopt;
    const std::optional<io::Entry> b = file_.bias_of(tensor);
    const bool by_heads = W.shape.size() == 3 && tensor.key != "W_o";
    if (b) file_.require_bias(tensor, *b, W.shape.back() * (by_heads ? W.shape[0] : 1));
    return b;
  }

  void require_width(const DescribedTensor& tensor, const io::Entry& W) const {
    const std::size_t axes = W.shape.size();
    if (tensor.key == "W_o") return file_.require_axis(tensor, W, axes - 1, width_, "gives");
    if (tensor.key.find("_b") == std::string::npos)
      file_.require_axis(tensor, W, axes - 2, width_, "takes");
  }

  /// The bias by the family's rule: a missing one is an error, a superfluous one is not read.
  std::optional<io::Entry> bias_by_rule(const DescribedTensor& tensor) {
    const std::string name =
        tensor.bias ? name_in_module(*tensor.bias) : bias_beside(name_in_module(tensor.name));
    if (name.empty()) return std::nullopt;
    static const BiasRule if_there;
    const BiasRule& rule = tensor.key == "W_o"      ? description_.output_bias
                           : tensor.key == "W_gate" ? if_there
                                                    : description_.qkv_bias;
    const Bias wanted = rule.of(group_);
    const io::Entry* const entry = group_.find(name);
    const auto key_in_config = [&](std::string_view otherwise) {
      return group_.configured(rule.key) ? std::string_view(rule.key) : otherwise;
    };
    if (wanted == Bias::always && !entry)
      fail("{}: {}{} is missing, {}", group_.contents->name, group_.prefix, name,
           rule.key.empty() ? std::string("which models of this kind have")
                            : fmt::format("though config.json has {}", key_in_config("no other")));
    if (wanted == Bias::never && entry) {
      to_.skip_with_warning(
          name,
          rule.key.empty()
              ? std::string("models of this kind have none")
              : fmt::format("config.json {} {}",
                            group_.configured(rule.key) ? "denies" : "does not have", rule.key));
      return std::nullopt;
    }
    return entry ? std::optional(*entry) : std::nullopt;
  }

  /// A bias that is split beside its weight has as many numbers as the weight has outputs.
  void require_bias_of(const DescribedTensor& tensor, const io::Entry& W, const io::Entry& stored) {
    const io::Entry& bias = *file_.bias(tensor);
    const std::size_t outputs = W.shape.back() * (W.shape.size() == 3 ? W.shape[0] : 1);
    if (mha::count_of(bias.shape) != outputs)
      fail("{}: {} is {}: {} numbers expected, as many as {} has outputs", group_.contents->name,
           bias.name, to_string(bias.shape), outputs, stored.name);
  }

  /// Notes what the module of a weight with several parts returns, where all are stages.
  void note_split(const DescribedTensor& tensor, const io::Entry& stored, std::size_t groups) {
    ModuleResult result;
    result.groups = groups;
    for (const std::string& part : tensor.split) {
      const TensorInfo* const info = find_tensor_name(names_of_part(tensor.key, part).first);
      if (!info || info->in_layer.readers.none()) return;
      result.stages.push_back(*info->in_layer.readers.begin());
    }
    to_.note_result(std::move(result), stored);
  }

  void take_split(const DescribedTensor& tensor, const io::Entry& W,
                  const std::optional<io::Entry>& b, const io::Entry& stored) {
    if (tensor.by_row) return take_alternate(tensor, W, b, stored);
    const SideBySide parts = parts_of(tensor);
    std::size_t all = 0, before = 0;
    for (const std::size_t size : parts.sizes) all += parts.groups * size;
    const bool splits =
        !W.shape.empty() && W.shape.back() > 0 && all > 0 && W.shape.back() % all == 0;
    if (!splits && !description_.is_users(tensor))
      fail("{}: {} is {}: rows for {} blocks of queries, values and keys expected",
           group_.contents->name, stored.name, to_string(stored.shape), tensor.groups);
    if (!splits)
      fail("{}: {}: {}, read as {}, gives {} numbers, which do not split into {} parts of heads",
           tensor.where, group_.contents->name, W.own_name, tensor.layout, W.shape.back(), all);
    if (b) require_bias_of(tensor, W, stored);
    note_split(tensor, stored, parts.groups);
    for (std::size_t i = 0; i < tensor.split.size(); ++i) {
      const std::size_t count = W.shape.back() / all * parts.groups * parts.sizes[i];
      const auto part = [&](const io::Entry& entry) {
        return parts.groups == 1 ? columns_entry(entry, before, count)
                                 : grouped_entry(entry, parts.groups, parts.sizes, i);
      };
      const auto [name, bias] = names_of_part(tensor.key, tensor.split[i]);
      put(name, tensor.key == "conv" ? turned_entry(part(W), "io", "oi") : part(W), stored);
      if (b) put(bias, part(reshaped_entry(*b, {mha::count_of(b->shape)})), *file_.bias(tensor));
      before += count;
    }
  }

  /// Takes two parts whose outputs alternate.
  void take_alternate(const DescribedTensor& tensor, const io::Entry& W,
                      const std::optional<io::Entry>& b, const io::Entry& stored) {
    if (b) require_bias_of(tensor, W, stored);
    for (std::size_t i = 0; i < tensor.split.size(); ++i) {
      const auto [name, bias] = names_of_part(tensor.key, tensor.split[i]);
      put(name, every_second_entry(W, i), stored);
      if (b) put(bias, every_second_entry(*b, i), *file_.bias(tensor));
    }
  }

  SideBySide parts_of(const DescribedTensor& tensor) const {
    SideBySide parts;
    if (!description_.sizes.empty() && is_one_of(tensor.key, {"W_mixer", "W_rates", "conv"})) {
      if (tensor.by_head)
        parts.groups = size_of_letter(description_, group_, Dim::H_qk, tensor.where);
      for (const std::string& part : tensor.split) {
        const std::size_t width = width_of_part(
            description_, group_, names_of_part(tensor.key, part).first, tensor.where);
        if (width % parts.groups != 0)
          fail("{}: {} of {} do not split into {} groups", tensor.where, width, part, parts.groups);
        parts.sizes.push_back(width / parts.groups);
      }
      return parts;
    }
    if (tensor.key == "W_q" && tensor.by_head) {
      parts.groups = count_of(tensor, "num_heads", 0);
      parts.sizes.assign(tensor.split.size(), 1);
      return parts;
    }
    if (description_.is_family) { // all parts have the same number of heads
      parts.groups = std::max<std::size_t>(tensor.groups, 1);
      parts.sizes.assign(tensor.split.size(), 1);
      return parts;
    }
    std::size_t heads = 1, kv_heads = 1;
    if (is_one_of("q", tensor.split) || tensor.by_head || tensor.groups > 0) {
      heads = count_of(tensor, "num_heads", 0);
      kv_heads = count_of(tensor, "num_kv_heads", heads);
    }
    if (heads % kv_heads != 0)
      fail("{}: {} heads do not share {} key/value heads", tensor.where, heads, kv_heads);
    parts.groups = tensor.groups > 0 ? tensor.groups : tensor.by_head ? kv_heads : 1;
    if (heads % parts.groups != 0 || kv_heads % parts.groups != 0)
      fail("{}: {} heads and {} key/value heads do not split into {} groups", tensor.where, heads,
           kv_heads, parts.groups);
    for (const std::string& part : tensor.split)
      parts.sizes.push_back((part == "q" ? heads : kv_heads) / parts.groups);
    return parts;
  }

  std::size_t count_of(const DescribedTensor& tensor, const char* setting,
                       std::size_t otherwise) const {
    std::optional<double> count;
    if (const auto option = to_.option(setting)) {
      DescribedValue given;
      given.where = "options", given.constant = *option;
      count = given.number(group_);
    } else if (const auto own = description_.settings.find(setting);
               own != description_.settings.end()) {
      count = own->second.number(group_, group_.number().value_or(0));
    } else if (otherwise > 0) {
      return otherwise;
    }
    if (!count || !(*count >= 1 && *count <= 1e6) || *count != std::floor(*count))
      fail("{}: {} must be known to split it; give it in settings, or as <{}>", tensor.where,
           setting, setting);
    return static_cast<std::size_t>(*count);
  }

  void set(const std::string& name, const DescribedValue& value) {
    const std::size_t layer = group_.number().value_or(0);
    if (!value.layers.empty()) {
      value.value(group_, layer); // throws Error for a layer without a value
      return set(name, value.layers[layer]);
    }
    const std::vector<std::string_view> keys(value.keys.begin(), value.keys.end());
    const bool configured = description_.is_family
                                ? !keys.empty() && to_.set_from_config(name, keys)
                                : std::ranges::any_of(keys, [&](std::string_view key) {
                                    return to_.set_from_config(name, {key});
                                  });
    if (configured) return;
    if (value.constant)
      to_.set(name, *value.constant, value.from.empty() ? description_.file : value.from);
    else if (!value.optional)
      value.value(group_, layer);
  }

  const Description& description_;
  const Group& group_;
  LayerReading& to_;
  DescribedFile file_;
  std::size_t width_ = 0; ///< of the stream; 0: unknown
};

} // namespace

bool is_of(const FamilyRow& family, const Group& group) {
  return is_recognised(family, group);
}

void read_layer(const FamilyRow& family, const Group& group, LayerReading& to) {
  LayerReader(group.description ? *group.description : description_of(family, group, false), group,
              to)
      .read();
}

void read_described_tensors(const Group& group, LayerReading& to) {
  LayerReader reader(*group.description, group, to);
  reader.read_tensors();
  reader.read_norm();
}

} // namespace mha::naming
