#include "naming/family.hpp"

namespace mha::naming {

const io::Entry* Group::find(std::string_view name) const {
  const auto at = tensors.find(name);
  return at == tensors.end() ? nullptr : at->second;
}

std::string Group::parent(std::size_t levels) const {
  std::string name = prefix;
  for (std::size_t i = 0; i < levels && !name.empty(); ++i) {
    name.pop_back(); // the dot
    const std::size_t dot = name.rfind('.');
    name = dot == std::string::npos ? "" : name.substr(0, dot + 1);
  }
  return name;
}

std::optional<std::string> Group::configured(std::initializer_list<std::string_view> keys) const {
  for (std::string_view key : keys)
    for (const std::string& name : {std::string(key), "text_config." + std::string(key)})
      if (const auto at = config->find(name); at != config->end() && at->second != "null") return at->second;
  return std::nullopt;
}

bool Group::is_model(std::initializer_list<std::string_view> types) const {
  const std::optional<std::string> type = configured({"model_type"});
  for (std::string_view candidate : types)
    if (type && *type == candidate) return true;
  return false;
}

std::string Translation::source_of(std::string_view name) const {
  return fmt::format("{}: {}{}", group_.contents->name, group_.prefix, name);
}

void Translation::take(std::string_view canonical, std::string_view name) {
  if (group_.has(name)) put(canonical, read(name), name);
}

void Translation::take_linear(std::string_view canonical, std::string_view name) {
  const io::Entry* entry = group_.find(name);
  if (!entry) return;
  if (entry->shape.size() != 2)
    fail("{} is {}: a matrix expected, (out, in)", source_of(name), to_string(entry->shape));
  put(canonical, transposed(entry->read()), name);
}

void Translation::put(std::string_view canonical, Tensor tensor, std::string_view name) {
  parts[std::string(canonical)] = {std::move(tensor), source_of(name)};
}

Tensor Translation::read(std::string_view name) const {
  const io::Entry* entry = group_.find(name);
  if (!entry) fail("{} is missing", source_of(name));
  return entry->read();
}

void Translation::take_elsewhere(std::string_view canonical, std::string_view whole_name) {
  if (const io::Entry* entry = group_.elsewhere(whole_name))
    parts[std::string(canonical)] = {entry->read(), fmt::format("{}: {}", group_.contents->name, whole_name)};
}

void Translation::set(std::string_view setting, std::string_view value, std::string_view origin) {
  settings.push_back({std::string(setting), std::string(value), std::string(origin)});
}

void Translation::set_from_config(std::string_view setting, std::initializer_list<std::string_view> keys) {
  if (const std::optional<std::string> value = group_.configured(keys)) set(setting, *value, "config.json");
}

} // namespace mha::naming
