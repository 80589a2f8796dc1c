#pragma once
// The supported shells. A shell is one file in this folder and one line in shells.cpp.

#include "commands/commands.hpp"

#include <span>

namespace mha::app {

struct Shell {
  std::string_view name; ///< "bash"
  /// The path below share/ where it looks for completions of installed programs.
  std::string_view place;
  /// The whole script, from the declarations of all commands.
  std::string (*script)(const std::vector<Declared>& commands);
};

std::span<const Shell> shells();
/// By name; throws Error for an unknown one.
const Shell& shell_named(std::string_view name);

std::string bash_script(const std::vector<Declared>& commands);
std::string zsh_script(const std::vector<Declared>& commands);
std::string fish_script(const std::vector<Declared>& commands);

/// The words that --stage accepts.
std::vector<std::string> stage_words();
/// Joined by spaces.
std::string joined(const std::vector<std::string>& words);
/// The first clause of a help text, short enough for a menu of completions.
std::string brief(std::string_view help);
/// In single quotes, with `escape` for a quote inside, so that the shell takes it literally.
std::string quoted(std::string_view text, std::string_view escape = "'\\''");

} // namespace mha::app
