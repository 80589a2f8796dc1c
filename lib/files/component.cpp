#include <mha/files/component.hpp>

#include <mha/files/text.hpp>
#include <mha/system/characters.hpp>

#include <algorithm>

namespace mha::io {

std::string path_component(std::string_view name) {
  if (name.empty()) return "%";
  // Braces would be taken for placeholders; a dot at the start hides a file or leads upwards.
  constexpr std::string_view never = "/\\%{}";
  const auto escape = [&](const Utf8& character,
                          std::string_view bytes) -> std::optional<std::string> {
    const bool leads = bytes == "." && bytes.data() == name.data();
    if (!leads && !safe_escape(character) && never.find(bytes) == std::string_view::npos)
      return std::nullopt;
    std::string escaped_bytes;
    for (const char byte : bytes)
      escaped_bytes += fmt::format("%{:02X}", static_cast<unsigned char>(byte));
    return escaped_bytes;
  };
  return escaped(name, escape);
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
