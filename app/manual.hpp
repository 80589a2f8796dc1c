#pragma once
// Man pages, made from the declarations of the commands and the tables of the library.

#include "commands/commands.hpp"

namespace mha::app {

/// mha-inspect(1), in the man macros that groff and mandoc read.
std::string manual_of_program(const std::vector<Declared>& commands);
/// mha-inspect-COMMAND(1).
std::string manual_of(const Declared& declared);

inline constexpr const char* formats_page = "mha-inspect-formats";
inline constexpr const char* stages_page = "mha-inspect-stages";
/// mha-inspect-formats(5): files, bindings, and every tensor and setting of a layer.
std::string manual_of_formats();
/// mha-inspect-stages(7): every stage, its shape, formula and other names.
std::string manual_of_stages();

/// Writes the files that a package installs below share/: man pages and shell completions.
void write_manuals_and_completions(const std::string& folder);

} // namespace mha::app
