#include <mha/load/as_naming.hpp>

#include <mha/layer/settings.hpp>

#include <nlohmann/json.hpp>

#include <fmt/format.h>

namespace mha {

namespace {

using Written = nlohmann::ordered_json;

/// JSON on one line with a space after commas and colons.
std::string json_line(const Written& value) {
  if (value.is_object() || value.is_array()) {
    std::string out, comma;
    for (const auto& [name, one] : value.items()) {
      out += comma + (value.is_object() ? Written(name).dump() + ": " : "") + json_line(one);
      comma = ", ";
    }
    return value.is_object() ? "{" + out + "}" : "[" + out + "]";
  }
  return value.dump();
}

} // namespace

std::string typed_value(std::string_view setting, const std::string& value) {
  const SettingInfo* info = find_setting(setting);
  if (info && info->kind == SettingKind::boolean)
    return value == "true" || value == "1" ? "true" : "false";
  return Written::parse(value, nullptr, false).is_number() ? value : Written(value).dump();
}

std::string spread_description(const std::string& json) {
  const Written top = Written::parse(json);
  std::string out = "{";
  std::string comma = "\n ";
  for (const auto& [key, value] : top.items()) {
    out += fmt::format("{}{}: ", comma, Written(key).dump());
    comma = ",\n ";
    const bool lines = (key == "tensors" || key == "embed") && value.size() > 1;
    if (!lines) {
      out += json_line(value);
      continue;
    }
    out += value.is_array() ? "[" : "{";
    std::string inner = "\n  ";
    for (const auto& [name, one] : value.items()) {
      out += inner + (value.is_array() ? "" : Written(name).dump() + ": ") + json_line(one);
      inner = ",\n  ";
    }
    out += value.is_array() ? "\n ]" : "\n }";
  }
  return out + "\n}\n";
}

} // namespace mha
