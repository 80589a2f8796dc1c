#pragma once
// Text from a file as one component of a path.

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

} // namespace mha::io
