#pragma once
// Help, from the declarations of the commands.

#include "commands/commands.hpp"
#include <mha/render/text.hpp>

namespace mha::app {

/// What the program is, in a line; what it does, in a few sentences; first lines to try.
extern const char* const program_summary;
extern const char* const program_about;
const std::vector<Example>& program_examples();

/// The headings of a command's options, in their order.
std::vector<std::string> groups_of(const Cli& cli);

/// What `mha-inspect` and `mha-inspect --help` print: the commands and some first lines to try.
std::string help_of_program(const render::TextStyle& text_style);
/// What `mha-inspect COMMAND --help` prints; `all`: with the settings of a layer one by one.
std::string help_of(const Command& command, const Cli& cli, bool all,
                    const render::TextStyle& text_style);

} // namespace mha::app
