#include <mha/files/paths.hpp>

#include <mha/files/text.hpp>
#include <mha/system/characters.hpp>
#include <mha/system/file.hpp>

#include <algorithm>
#include <cerrno>
#include <filesystem>

namespace mha::io {

std::string path_component(std::string_view name) {
  if (name.empty()) return "%";
  // Braces would be read as placeholders; a dot at the start hides a file or leads upwards.
  constexpr std::string_view always_escaped = "/\\%{}";
  const auto escape = [&](const Utf8& character,
                          std::string_view bytes) -> std::optional<std::string> {
    const bool leads = bytes == "." && bytes.data() == name.data();
    if (!leads && !safe_escape(character) && always_escaped.find(bytes) == std::string_view::npos)
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

std::string resolve_links(const std::string& path) {
  constexpr int most = 40; // as many as Linux follows
  std::filesystem::path at = path;
  for (int links = 0;; ++links) {
    std::error_code error;
    if (!std::filesystem::is_symlink(std::filesystem::symlink_status(at, error)))
      return at.string();
    if (links == most) fail("{}: cannot write: {}", shown(path), reason(ELOOP));
    const std::filesystem::path target = std::filesystem::read_symlink(at, error);
    if (error) fail("{}: cannot write: {}", shown(path), error.message());
    at = at.parent_path() / target; // an absolute target replaces everything before it
  }
}

std::string canonical_path(const std::string& path) {
  std::error_code error;
  std::string end;
  try {
    end = resolve_links(path);
  } catch (const Error&) {
    end = path; // a cycle of links: opening it fails with ELOOP
  }
  const std::filesystem::path place =
      std::filesystem::weakly_canonical(std::filesystem::absolute(end, error), error);
  return error ? end : place.string();
}

} // namespace mha::io
