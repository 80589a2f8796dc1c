#include <mha/files/component.hpp>

#include <mha/files/text.hpp>
#include <mha/system/characters.hpp>

#include <algorithm>

namespace mha::io {

std::string path_component(std::string_view name) {
  if (name.empty()) return "%";
  std::string component;
  const auto escape = [&](std::string_view bytes) {
    for (const char byte : bytes)
      component += fmt::format("%{:02X}", static_cast<unsigned char>(byte));
  };
  // Braces would be taken for placeholders; a dot at the start hides a file or leads upwards.
  constexpr std::string_view never = "/\\%{}";
  while (!name.empty()) {
    const Utf8 character = first_utf8(name);
    const std::string_view bytes = name.substr(0, character.bytes);
    const bool leads = bytes == "." && component.empty();
    if (leads || !character.valid || is_unsafe(character.code) ||
        never.find(bytes) != std::string_view::npos)
      escape(bytes);
    else
      component += bytes;
    name.remove_prefix(character.bytes);
  }
  return component;
}

bool leads_outside(std::string_view name) {
  if (name.starts_with('/')) return true;
  while (!name.empty()) {
    const std::size_t end = std::min(name.find_first_of("/\\"), name.size());
    if (name.substr(0, end) == "..") return true;
    name.remove_prefix(std::min(end + 1, name.size()));
  }
  return false;
}

} // namespace mha::io
