#pragma once
// Names from files as parts of paths, and the targets of symbolic links.

#include <string>
#include <string_view>

namespace mha::io {

/// A name from a file as one safe component of a path. Different names give different components,
/// and none leads to another folder. Letters of any script, digits, spaces and most signs stay;
/// slashes, control and direction characters, braces, %, bytes that are not UTF-8, and a dot at the
/// start become %XX. An empty name becomes "%".
std::string path_component(std::string_view name);

/// Whether an archive member's name leads out of the folder that it is unpacked in: it begins with
/// a slash, or a part of it is "..".
bool leads_outside(std::string_view name);

/// The path at the end of a chain of symbolic links, or the path itself if it is not a link. Throws
/// Error for more links than Linux follows (ELOOP: a cycle).
std::string resolve_links(const std::string& path);

/// The absolute path without symbolic links, "." and ".."; the file need not exist.
std::string canonical_path(const std::string& path);

} // namespace mha::io
