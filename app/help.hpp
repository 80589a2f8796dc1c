#pragma once
// Help texts, made from the declarations of the commands.

#include "commands/commands.hpp"
#include <mha/render/text.hpp>

namespace mha::app {

/// A one-line summary of the program, a description of a few sentences, and first lines to try.
extern const char* const program_summary;
extern const char* const program_about;
const std::vector<Example>& program_examples();

/// The headings of a command's options, in order.
std::vector<std::string> groups_of(const Cli& cli);

/// The output of `mha-inspect` and `mha-inspect --help`: the commands and some first lines to try.
std::string help_of_program(const render::TextStyle& text_style);
/// How much of a command's help is shown.
enum class HelpDepth : std::uint8_t {
  page, ///< -h: examples, and the options in at most 60 lines
  whole ///< --help: every option with its full description
};
/// The output of `mha-inspect COMMAND -h` or `--help`.
std::string help_of(const Command& command, const Cli& cli, HelpDepth depth,
                    const render::TextStyle& text_style);

} // namespace mha::app
