#include <mha/files/link.hpp>

#include <mha/files/file.hpp>
#include <mha/files/text.hpp>

#include <cerrno>
#include <filesystem>

namespace mha::io {

namespace fs = std::filesystem;

std::string resolve_links(const std::string& path) {
  constexpr int most = 40; // as many as Linux follows
  fs::path at = path;
  for (int links = 0;; ++links) {
    std::error_code error;
    if (!fs::is_symlink(fs::symlink_status(at, error))) return at.string();
    if (links == most) fail("{}: cannot write: {}", shown(path), reason(ELOOP));
    const fs::path target = fs::read_symlink(at, error);
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
  const fs::path place = fs::weakly_canonical(fs::absolute(end, error), error);
  return error ? end : place.string();
}

} // namespace mha::io
