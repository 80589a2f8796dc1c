#pragma once
// Targets of paths, of files that are yet to be written, too.

#include <string>

namespace mha::io {

/// The path at the end of a chain of symbolic links; the path itself where it is no link. Throws
/// Error for more links than Linux follows (ELOOP: a cycle).
std::string resolve_links(const std::string& path);

/// The absolute path without symbolic links, "." and ".."; the file need not exist.
std::string canonical_path(const std::string& path);

} // namespace mha::io
