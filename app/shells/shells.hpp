#pragma once
// The list of shells that are completed. A shell is one file in this folder and one line in
// shells.cpp.

#include "commands/commands.hpp"

#include <span>

namespace mha::app {

struct Shell {
  std::string_view name; ///< "bash"
  /// Where it looks for the completions of programs that are installed, below share/.
  std::string_view place;
  /// The whole script, from the declarations of all commands.
  std::string (*script)(const std::vector<Declared>& commands);
};

std::span<const Shell> shells();
/// By name, which must be one of the list.
const Shell& shell_named(std::string_view name);

std::string bash_script(const std::vector<Declared>& commands);
std::string zsh_script(const std::vector<Declared>& commands);
std::string fish_script(const std::vector<Declared>& commands);

/// The words that --stage takes.
std::vector<std::string> stage_words();
/// With a space between them.
std::string joined(const std::vector<std::string>& words);
/// The first clause of an explanation: what fits beside an option in a menu.
std::string brief(std::string_view help);
/// In single quotes, with `escape` for a quote inside: what sh and zsh, or fish, take literally.
std::string quoted(std::string_view text, std::string_view escape = "'\\''");

} // namespace mha::app
