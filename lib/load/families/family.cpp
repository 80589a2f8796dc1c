#include <mha/load/families/family.hpp>

#include <mha/load/families/config_keys.hpp>
#include <mha/system/characters.hpp>
#include <mha/system/one_of.hpp>
#include <mha/system/parse.hpp>

#include <algorithm>
#include <cmath>

namespace mha::naming {

namespace {

bool has_section(const Config& config, std::string_view section) {
  const auto first = config.lower_bound(std::string(section));
  return first != config.end() && first->first.starts_with(section);
}

/// The sections of config.json with the settings of a group, in order. Absent ones are left out,
/// because every key is looked up in each.
std::vector<std::string_view> sections_of(const Group& group) {
  const Config& config = *group.config;
  if (group.within({"vision", "visual"}) && has_section(config, "vision_config."))
    return {"vision_config."};
  std::vector<std::string_view> sections;
  for (const std::string_view section : text_sections)
    if (has_section(config, section)) sections.push_back(section);
  sections.emplace_back("");
  if (group.within({"decoder."}))
    sections.emplace_back("decoder.");
  else if (group.within({"encoder."}))
    sections.emplace_back("encoder.");
  return sections;
}

/// The sections that may have the model_type of a group's part, then that of the whole model.
std::vector<std::string_view> sections_of_type(const Group& group) {
  std::vector<std::string_view> sections = sections_of(group);
  if (group.within({"vision", "visual"})) sections = {"vision_config."};
  if (group.within({"audio", "speech"})) sections = {"audio_config."};
  std::erase(sections, "");
  sections.emplace_back("");
  return sections;
}

/// Whether one of the sections has this key with a value other than null.
bool has_value_in(const std::vector<std::string_view>& sections, const Config& config,
                  std::string_view key) {
  return std::ranges::any_of(sections, [&](std::string_view section) {
    const auto at = config.find(std::string(section) + std::string(key));
    return at != config.end() && at->second != "null";
  });
}

bool same_value(const std::string& a, const std::string& b) {
  const auto x = parse_number<double>(a), y = parse_number<double>(b);
  return a == b || (x && y && *x == *y);
}

/// The end of a key whose value is a list with one for each layer.
constexpr std::string_view of_layers = "[]";

std::string_view without_mark(std::string_view key) {
  return key.ends_with(of_layers) ? key.substr(0, key.size() - of_layers.size()) : key;
}

/// An element of a list; nothing of a shorter one, and of a value that is not a list.
std::optional<std::string> element_of_list(const std::string& value, std::size_t index) {
  if (value.find(',') == value.npos && !value.starts_with('[')) return std::nullopt;
  return element(value, index);
}

} // namespace

const io::Entry* Group::find(std::string_view name) const {
  if (reads) reads->ask_tensor(prefix + std::string(name));
  const auto at = tensors.find(name);
  return at == tensors.end() ? nullptr : at->second;
}

bool Group::holds(const io::Entry& entry) const {
  return std::any_of(tensors.begin(), tensors.end(),
                     [&](const auto& tensor) { return tensor.second == &entry; });
}

Shape Group::shape(std::string_view name) const {
  const io::Entry* entry = find(name);
  return entry ? entry->shape : Shape{};
}

std::string Group::parent(std::size_t levels) const {
  std::string name = prefix;
  for (std::size_t i = 0; i < levels && !name.empty(); ++i) {
    name.pop_back(); // the dot
    const std::size_t dot = name.find_last_of("./");
    name = dot == std::string::npos ? "" : name.substr(0, dot + 1);
  }
  return name;
}

std::optional<std::size_t> Group::number() const {
  return layer ? layer : layer_number(prefix);
}

bool Group::within(std::initializer_list<std::string_view> parts) const {
  if (description) return false; // it defines the meaning of the names
  const auto has = [&](std::string_view part) {
    for (std::size_t at = 0; (at = prefix.find(part, at)) != std::string::npos; ++at) {
      const std::size_t end = at + part.size();
      const bool begins = at == 0 || !is_letter(prefix[at - 1]);
      if (begins && (end == prefix.size() || !is_letter(part.back()) || !is_letter(prefix[end])))
        return true;
    }
    return false;
  };
  return std::any_of(parts.begin(), parts.end(), has);
}

const io::Entry* Group::elsewhere(std::string_view whole_name) const {
  if (reads) reads->ask_tensor(whole_name);
  return contents->find(whole_name);
}

void Group::use(const io::Entry& entry) const {
  if (reads) reads->use(entry.name);
}

Tensor Group::read(const io::Entry& entry) const {
  constexpr std::size_t small = 1 << 16;
  use(entry);
  return outline && count_of(entry.shape) > small ? Tensor::uninitialised(entry.dtype, entry.shape)
                                                  : entry.read();
}

std::vector<std::string_view> Group::spellings(Keys keys) const {
  std::vector<std::string_view> all(keys.begin(), keys.end());
  if (description) return all; // it names the very key that it means
  const std::vector<std::string_view> sections = sections_of(*this);
  const auto has_value = [&](std::string_view key) { return has_value_in(sections, *config, key); };
  // The family's own keys win over other spellings.
  if (std::ranges::any_of(keys, has_value)) return all;
  for (std::string_view key : keys)
    for (std::string_view other : size_spellings(key)) {
      add_once(all, other);
      if (has_value(other)) return all;
    }
  return all;
}

std::optional<std::string> Group::configured(Keys keys) const {
  const std::vector<std::string_view> spelt = spellings(keys);
  ask(keys);
  for (std::string_view section : sections_of(*this)) {
    const std::pair<const std::string, std::string>* first = nullptr;
    for (std::string_view key : spelt) {
      const auto at = config->find(std::string(section) + std::string(without_mark(key)));
      if (at == config->end() || at->second == "null") continue;
      if (key.ends_with(of_layers)) {
        if (auto own = number() ? element_of_list(at->second, *number()) : std::nullopt) return own;
        continue;
      }
      if (first && !same_value(first->second, at->second))
        fail("config.json: {} is {}, and {} is {}: the two mean the same here; remove one of them",
             first->first, first->second, at->first, at->second);
      if (!first) first = &*at;
    }
    if (!first) continue;
    overrule(section, keys, spelt, first->second);
    return first->second;
  }
  return std::nullopt;
}

void Group::ask(Keys keys) const {
  if (!reads) return;
  for (std::string_view key : keys) {
    reads->ask_setting(without_mark(key));
    if (description) continue;
    for (std::string_view other : size_spellings(key)) reads->ask_setting(other);
  }
}

void Group::overrule(std::string_view section, Keys keys,
                     const std::vector<std::string_view>& spelt, const std::string& value) const {
  if (!reads || description) return;
  for (std::string_view key : keys)
    for (std::string_view other : size_spellings(key)) {
      const auto at = config->find(std::string(section) + std::string(other));
      if (at != config->end() && at->second != "null" && !same_value(at->second, value) &&
          !is_one_of(other, spelt))
        reads->overrule(other);
    }
}

bool Group::has_key(std::string_view key) const {
  if (reads) reads->ask_setting(key);
  const std::vector<std::string_view> sections = sections_of(*this);
  return std::ranges::any_of(sections, [&](std::string_view section) {
    return config->contains(std::string(section) + std::string(key));
  });
}

bool Group::config_has(std::string_view key) const {
  return has_value_in(sections_of(*this), *config, without_mark(key));
}

std::optional<bool> Group::flag(std::initializer_list<std::string_view> keys) const {
  const std::optional<std::string> text = configured(keys);
  if (!text) return std::nullopt;
  if (*text == "true" || *text == "1") return true;
  if (*text == "false" || *text == "0") return false;
  fail("config.json: {} is '{}': true or false expected", *keys.begin(), *text);
}

std::optional<double> Group::configured_number(Keys keys) const {
  const std::optional<std::string> text = configured(keys);
  if (!text) return std::nullopt;
  const auto value = parse_number<double>(*text);
  if (!value || !std::isfinite(*value))
    fail("config.json: {} is '{}': a number expected", *keys.begin(), *text);
  return value;
}

std::optional<std::size_t> Group::configured_count(Keys keys, std::size_t least) const {
  const std::optional<double> number = configured_number(keys);
  if (!number) return std::nullopt;
  constexpr double most = 9007199254740992; // 2^53: each whole number has its own double
  if (!(*number >= static_cast<double>(least) && *number < most) || *number != std::floor(*number))
    fail("config.json: {} is {}: a whole number{} expected", *keys.begin(), *number,
         least > 0 ? fmt::format(" from {} on", least) : "");
  return static_cast<std::size_t>(*number);
}

std::vector<std::string> Group::model_types() const {
  if (reads) reads->ask_setting("model_type");
  std::vector<std::string> types;
  for (const std::string_view section : sections_of_type(*this))
    if (const auto type = config->find(std::string(section) + "model_type");
        type != config->end() && type->second != "null")
      add_once(types, type->second);
  return types;
}

bool Group::is_model(std::initializer_list<std::string_view> types) const {
  return std::ranges::any_of(model_types(),
                             [&](const std::string& type) { return is_one_of(type, types); });
}

} // namespace mha::naming
