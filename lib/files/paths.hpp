#pragma once
// Names from files as parts of paths, and the targets of symbolic links.

#include <string>
#include <string_view>

namespace mha::io {

/// A name that a file brought along, as one harmless component of a path: different names give
/// different components, and none leads elsewhere. Letters of any script, digits, spaces and most
/// signs stay; slashes, control and direction characters, braces, %, bytes that are no UTF-8, and a
/// dot at the start become %XX. Nothing becomes "%".
std::string path_component(std::string_view name);

/// Whether a name with slashes, as archives may have them, leads out of the folder that it is
/// unpacked in: it begins with a slash, or a part of it is "..".
bool leads_outside(std::string_view name);

/// The path at the end of a chain of symbolic links; the path itself where it is no link. Throws
/// Error for more links than Linux follows (ELOOP: a cycle).
std::string resolve_links(const std::string& path);

/// The absolute path without symbolic links, "." and ".."; the file need not exist.
std::string canonical_path(const std::string& path);

} // namespace mha::io
