#pragma once
// Help, from the declarations of the commands.

#include "commands/commands.hpp"
#include "render/text.hpp"

namespace mha::app {

/// What `mha-inspect` and `mha-inspect --help` print: the commands and some first lines to try.
std::string help_of_program(const render::Look& look);
/// What `mha-inspect COMMAND --help` prints.
std::string help_of(const Command& command, const Cli& cli, const render::Look& look);

} // namespace mha::app
