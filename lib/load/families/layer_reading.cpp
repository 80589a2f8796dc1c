// LayerReading: takes canonical tensors, settings and remarks of one layer.

#include <mha/load/families/family.hpp>

#include <mha/system/one_of.hpp>
#include <mha/system/words.hpp>

#include <fmt/format.h>

namespace mha::naming {

std::string LayerReading::source_of(std::string_view name) const {
  if (const io::Entry* entry = group_.find(name)) return source_of(*entry);
  return fmt::format("{}: {}{}", group_.contents->name, group_.prefix, name);
}

std::string LayerReading::source_of(const io::Entry& entry) const {
  return fmt::format("{}: {}", group_.contents->name,
                     family_.present ? entry.name_in_file() : entry.name);
}

void LayerReading::take(std::string_view canonical, std::string_view name) {
  if (group_.has(name)) put(canonical, read(name), name);
}

void LayerReading::put(std::string_view canonical, Tensor tensor, std::string_view name) {
  if (const io::Entry* entry = group_.find(name)) return put(canonical, std::move(tensor), *entry);
  mha::NamedTensor part{std::move(tensor), source_of(name)};
  part.from = source_of(name);
  parts[std::string(canonical)] = std::move(part);
}

void LayerReading::put(std::string_view canonical, Tensor tensor, const io::Entry& stored) {
  const Shape &shape = stored.shape, reversed(shape.rbegin(), shape.rend());
  std::string source = source_of(stored);
  if (!group_.description && !shape.empty() && shape != tensor.shape())
    source += reversed == tensor.shape() ? ", transposed," : ", a part of it,";
  mha::NamedTensor part{std::move(tensor), std::move(source)};
  part.from = source_of(stored);
  parts[std::string(canonical)] = std::move(part);
}

Tensor LayerReading::read(std::string_view name) const {
  const io::Entry* entry = group_.find(name);
  if (!entry) fail("{} is missing", source_of(name));
  return group_.read(*entry);
}

void LayerReading::take_elsewhere(std::string_view canonical, std::string_view whole_name) {
  if (const io::Entry* entry = group_.elsewhere(whole_name))
    parts[std::string(canonical)] = {group_.read(*entry),
                                     fmt::format("{}: {}", group_.contents->name, whole_name)};
}

void LayerReading::note_result(ModuleResult result, const io::Entry& weight) {
  std::string_view name = weight.name;
  for (const std::string_view end : {".weight", "/kernel", ".kernel"})
    if (name.ends_with(end)) name.remove_suffix(end.size());
  if (name.size() == weight.name.size()) return; // a tensor of no module
  result.module = last_part(name);
  results.push_back(std::move(result));
}

void LayerReading::set(std::string_view setting, std::string_view value, std::string_view origin) {
  settings.push_back(
      {std::string(setting), std::string(value),
       origin.empty() ? fmt::format("{} names", family_.title) : std::string(origin)});
}

bool LayerReading::set_from_config(std::string_view setting, Keys keys) {
  const std::optional<std::string> value = group_.configured(keys);
  if (!value) return false;
  set(setting, *value, "config.json");
  for (std::string_view key : group_.spellings(keys)) {
    if (!group_.config_has(key)) continue;
    settings.back().key = key;
    if (!is_one_of(key, keys))
      note(fmt::format("config.json: {} is read as {}, as {} configs have it", key, *keys.begin(),
                       family_.title));
    break;
  }
  return true;
}

std::optional<std::string> LayerReading::option(std::string_view setting) const {
  const auto at = options_.find(setting);
  return at == options_.end() ? std::nullopt : std::optional(at->second);
}

std::optional<double>
LayerReading::positive_number(std::initializer_list<std::string_view> keys) const {
  const std::optional<double> number = group_.configured_number(keys);
  if (number && !(*number > 0))
    fail("config.json: {} is {}: a number above 0 expected", *keys.begin(), *number);
  return number;
}

std::optional<std::size_t> LayerReading::count(std::string_view setting) const {
  std::optional<std::string> text = option(setting);
  if (!text)
    for (const FamilySetting& own : settings)
      if (own.name == setting) text = own.value;
  if (!text) return std::nullopt;
  Settings parsed; // reports what is wrong with the number
  mha::set(parsed, setting, *text, option(setting) ? "options" : "config.json");
  return setting == "num_heads" ? parsed.num_heads : parsed.num_kv_heads;
}

std::optional<std::size_t> LayerReading::head_width(const char* W) const {
  const bool of_keys = std::string_view(W) != "W_q";
  const std::size_t all = count("num_heads").value_or(0),
                    heads = of_keys ? count("num_kv_heads").value_or(all) : all;
  if (heads == 0) return std::nullopt;
  if (const auto q = parts.find(W); q != parts.end() && q->second.tensor.rank() == 2)
    return q->second.tensor.shape()[1] / heads;
  if (const auto fused = parts.find("W_qkv"); fused != parts.end())
    return fused->second.tensor.shape().back() /
           (heads + 2 * count("num_kv_heads").value_or(heads));
  return std::nullopt;
}

void LayerReading::take_norm(const io::Entry* weight, const io::Entry* bias) {
  if (weight) norm.weight = *weight, group_.use(*weight);
  if (bias) norm.bias = *bias, group_.use(*bias);
}

void LayerReading::refuse(std::initializer_list<std::string_view> names,
                          std::string_view what) const {
  for (std::string_view name : names)
    if (group_.has(name)) fail("{}: {} is not supported", source_of(name), what);
}

void LayerReading::skip(std::initializer_list<std::string_view> names, std::string_view what) {
  for (std::string_view name : names)
    if (const io::Entry* entry = group_.find(name)) {
      group_.use(*entry);
      note(fmt::format("{} is {}: skipped", source_of(name), what));
    }
}

void LayerReading::skip_with_warning(std::string_view name, std::string_view why) {
  const io::Entry* entry = group_.find(name);
  if (!entry) return;
  group_.use(*entry);
  warn(fmt::format("{}: skipped, as in Transformers: {}", source_of(name), why));
}

void LayerReading::note_square(std::string_view canonical, std::string_view name,
                               std::string_view taken, std::string_view otherwise,
                               std::string_view choose) {
  if (group_.configured("model_type")) return; // it identifies the naming
  const Shape shape = group_.shape(name);
  // The first matrix of a feed-forward is not square, so its shape shows how the file stores
  // matrices.
  const io::Entry* widens = group_.elsewhere(group_.parent() + "mlp.c_fc.weight");
  if (widens && widens->shape.size() == 2 && widens->shape[0] != widens->shape[1]) return;
  if (shape.size() == 2 && shape[0] == shape[1])
    warn(message("{} is square, {}: taken as {}, as {} names have it; <naming> {} or "
                 "<{}=FILE:TENSOR@{}> reads it the other way",
                 source_of(name), to_string(shape), taken, family_.title, choose, canonical,
                 otherwise));
}

} // namespace mha::naming
