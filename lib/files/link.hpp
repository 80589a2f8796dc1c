#pragma once
// Targets of paths, of files that are yet to be written, too.

#include <string>

namespace mha::io {

/// The path that a link, and the link that it leads to, and so on, lead to; the path itself where
/// it is none. Throws Error where links lead in a circle.
std::string followed(const std::string& path);

/// The absolute path without links or dots that a path means, or would mean if it were there.
std::string place_of(const std::string& path);

} // namespace mha::io
