// ALBERT's layers share their weights: num_hidden_layers passes are divided in order among
// num_hidden_groups groups, and a pass computes the inner_group_num layers of its group.

#include <mha/load/families/config_keys.hpp>
#include <mha/load/families/steps.hpp>
#include <mha/system/parse.hpp>

#include <algorithm>
#include <functional>
#include <set>

namespace mha::naming {

namespace {

constexpr std::string_view groups_prefix = "encoder.albert_layer_groups.",
                           layers_prefix = "albert_layers.";

/// The parts of the name of a shared weight: model_prefix "albert.", group G, layer I of the group
/// and name "ffn.weight" of albert.encoder.albert_layer_groups.G.albert_layers.I.ffn.weight.
struct SharedTensorName {
  std::string_view model_prefix;
  std::size_t group = 0, layer = 0;
  std::string_view name;
};

/// Removes a number and the dot after it from the start of the text, and returns the number.
std::optional<std::size_t> take_number_and_dot(std::string_view& text) {
  const auto number = take_number<std::size_t>(text);
  if (!number || !text.starts_with('.')) return std::nullopt;
  text.remove_prefix(1);
  return number;
}

std::optional<SharedTensorName> parse_shared_tensor_name(std::string_view name) {
  const std::size_t at = name.find(groups_prefix);
  if (at == std::string_view::npos || (at > 0 && name[at - 1] != '.')) return std::nullopt;
  SharedTensorName tensor;
  tensor.model_prefix = name.substr(0, at);
  name.remove_prefix(at + groups_prefix.size());
  const auto group = take_number_and_dot(name);
  if (!group || !name.starts_with(layers_prefix)) return std::nullopt;
  name.remove_prefix(layers_prefix.size());
  const auto layer = take_number_and_dot(name);
  if (!layer) return std::nullopt;
  tensor.group = *group, tensor.layer = *layer, tensor.name = name;
  return tensor;
}

/// The count that config.json gives under a spelling of the key, or `default_count` if it gives
/// none.
std::size_t count_in_config(const io::Contents& file, const Config& config, const std::string& key,
                            std::size_t default_count) {
  auto at = config.find(key);
  for (std::string_view spelling : size_spellings(key))
    if (at == config.end()) at = config.find(std::string(spelling));
  if (at == config.end() || at->second == "null") return default_count;
  const auto count = parse_number<std::size_t>(at->second);
  constexpr std::size_t largest_count = 4096;
  if (!count || *count == 0 || *count > largest_count)
    fail("{}: config.json: {} is '{}': a number from 1 to {} expected", file.name, key, at->second,
         largest_count);
  return *count;
}

} // namespace

/// Renames the shared weights to those of a model whose layers do not share: each layer of the
/// computation, number N, gets entries encoder.layer.N, which refer to the shared memory. Returns
/// false if the file has no shared weights.
bool unshare_albert_layers(io::Contents& file, const Config& config) {
  std::size_t group_count = 0, layers_per_group = 0;
  for (const io::Entry& entry : file.tensors)
    if (const auto tensor = parse_shared_tensor_name(entry.name)) {
      group_count = std::max(group_count, tensor->group + 1);
      layers_per_group = std::max(layers_per_group, tensor->layer + 1);
    }
  if (group_count == 0) return false;
  const auto require_count = [&](const char* key, std::size_t found) {
    if (const std::size_t configured = count_in_config(file, config, key, found);
        configured != found)
      fail("{}: config.json has {} {}, but the tensors have {}", file.name, key, configured, found);
  };
  require_count("num_hidden_groups", group_count);
  require_count("inner_group_num", layers_per_group);
  const std::size_t pass_count = count_in_config(file, config, "num_hidden_layers", group_count);
  std::set<std::string, std::less<>> names_in_file;
  for (const io::Entry& entry : file.tensors) names_in_file.insert(entry.name);
  std::vector<io::Entry> entries;
  for (io::Entry& entry : file.tensors) {
    const auto tensor = parse_shared_tensor_name(entry.name);
    if (!tensor) {
      entries.push_back(std::move(entry));
      continue;
    }
    for (std::size_t pass = 0; pass < pass_count; ++pass) {
      if (pass * group_count / pass_count != tensor->group) continue;
      io::Entry layer = entry;
      layer.name = fmt::format("{}encoder.layer.{}.{}", tensor->model_prefix,
                               pass * layers_per_group + tensor->layer, tensor->name);
      layer.own_name = entry.name_in_file();
      if (names_in_file.contains(layer.name))
        fail("{}: {} and {} are of the same layer; remove one of them", file.name, layer.name,
             entry.name);
      entries.push_back(std::move(layer));
    }
  }
  file.tensors = std::move(entries);
  file.order = nullptr;
  return true;
}

} // namespace mha::naming
