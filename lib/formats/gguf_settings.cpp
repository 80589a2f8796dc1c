#include <mha/formats/gguf_settings.hpp>

#include <mha/files/contents.hpp>
#include <mha/files/text.hpp>
#include <mha/formats/gguf_tables.hpp>
#include <mha/system/named.hpp>
#include <mha/system/words.hpp>

#include <fmt/format.h>

#include <algorithm>

namespace mha::io {

namespace {

std::string in_section(std::string_view section, std::string_view key) {
  return std::string(section) + std::string(key);
}

/// A value as text for messages.
std::string printed(const GgufValue& value) {
  constexpr std::uint64_t most_listed = 16;
  if (value.is_array && (value.count > most_listed || value.type == GgufType::array))
    return fmt::format("a list of {}", value.count);
  return shown(value.written());
}

/// A value as text; the common value of a list with one element per layer, or nothing if they
/// differ.
std::optional<std::string> common_value(const GgufValue& value) {
  std::string text = value.written();
  if (!value.is_array || value.count == 0) return text;
  std::string first = text.substr(0, text.find(',')), same = first;
  for (std::uint64_t i = 1; i < value.count && same.size() < text.size(); ++i) same += "," + first;
  return same == text ? std::optional(std::move(first)) : std::nullopt;
}

} // namespace

bool GgufSettings::is(std::string_view architectures) const {
  return has_word(architectures, architecture_);
}

void GgufSettings::set_number(const std::string& name, double value) {
  set(name, number_text(value));
}

void GgufSettings::set_rotated_part(const std::string& name, double dims, double width) {
  set(name, dims >= width ? "1" : number_text((dims + 0.25) / width));
}

const GgufValue* GgufSettings::value(std::string_view key) const {
  constexpr std::uint64_t most = 4096;
  read_.emplace(key);
  const GgufValue* value = file_.find(whole(key));
  if (value && value->is_array && value->count > most)
    fail("{}: {} has {} elements: one a layer expected, at most {}", shown(file_.name), whole(key),
         value->count, most);
  return value;
}

std::optional<double> GgufSettings::number(std::string_view key) const {
  const GgufValue* const found = value(key);
  return found && found->is_array ? found->number() : file_.number(whole(key));
}

std::optional<double> GgufSettings::number_but_0(std::string_view key) const {
  const std::optional<double> found = number(key);
  return found == 0.0 ? std::nullopt : found;
}

double GgufSettings::further_blocks() const {
  if (!is(gguf_with_further_blocks)) return 0;
  return std::max(0.0, number("nextn_predict_layers").value_or(0));
}

std::optional<bool> GgufSettings::flag(std::string_view key) const {
  value(key);
  return file_.boolean(whole(key));
}
std::optional<std::string_view> GgufSettings::text(std::string_view key) const {
  value(key);
  return file_.text(whole(key));
}

const GgufTensor* GgufSettings::tensor(std::string_view name) const {
  return find_named(file_.tensors, name);
}

void GgufSettings::copy(std::string_view key, std::string_view name) {
  const GgufValue* const found = value(key);
  if (!found) return;
  const std::optional<std::string> text = common_value(*found);
  if (!text) return refuse(key, "which is not computed here: the same in every layer expected");
  set(std::string(name), *text);
  set(in_section(own_key_section, name), whole(key));
}

void GgufSettings::keep(const std::string& whole_key, const GgufValue& value) {
  set(whole_key, printed(value));
  set(in_section(own_key_section, whole_key), whole_key);
}

void GgufSettings::refuse(std::string_view key, std::string_view why) {
  const GgufValue* const found = value(key);
  config.try_emplace(in_section(refused_section, whole(key)), // the first reason counts
                     found ? fmt::format("is {}, {}", printed(*found), why) : std::string(why));
}

void GgufSettings::refuse_tensor(std::string_view tensor, std::string_view why) {
  config.try_emplace(in_section(refused_section, tensor), why);
}

void GgufSettings::doubt(std::string_view key, std::string_view why) {
  set(in_section(doubted_section, whole(key)), why);
}

} // namespace mha::io
