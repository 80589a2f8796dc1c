#pragma once
// Man pages, from the declarations of the commands.

#include "commands/commands.hpp"

namespace mha::app {

/// mha-inspect(1), in the man macros that groff and mandoc read.
std::string manual_of_program(const std::vector<Declared>& commands);
/// mha-inspect-COMMAND(1).
std::string manual_of(const Declared& declared);

/// Writes what a package installs below share/: man/man1/*.1 and the completions of every shell.
void write_share(const std::string& folder);

} // namespace mha::app
