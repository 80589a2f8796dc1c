#pragma once
// The list of commands. A command is one file in this folder and one line in commands.cpp.

#include "cli.hpp"

#include <span>

namespace mha::app {

struct Command {
  std::string_view name;    ///< "show"
  std::string_view summary; ///< one line, for the list of commands
  /// Declares the options into `cli`, bound to variables that the returned function owns and reads.
  Run (*declare)(Cli& cli);
  /// Whether the ranks that mpirun starts divide the work; otherwise the first one does all of it.
  bool together = false;
};

/// All commands, in the order of the help.
std::span<const Command> commands();
/// By name; throws UsageError with "did you mean".
const Command& command_named(std::string_view name);

/// A command with its declarations.
struct Declared {
  const Command* command;
  Cli cli;
  Run run; ///< owns the variables of the declarations
};
/// All commands in order, from which help, man pages and completions are made.
std::vector<Declared> declared_commands();

Run declare_info(Cli& cli);
Run declare_stages(Cli& cli);
Run declare_names(Cli& cli);
Run declare_show(Cli& cli);
Run declare_dump(Cli& cli);
Run declare_map(Cli& cli);
Run declare_explain(Cli& cli);
Run declare_report(Cli& cli);
Run declare_diff(Cli& cli);
Run declare_diagnose(Cli& cli);
Run declare_convert(Cli& cli);
Run declare_bench(Cli& cli);
Run declare_predict(Cli& cli);
Run declare_effects(Cli& cli);
Run declare_circuits(Cli& cli);
Run declare_tokens(Cli& cli);
Run declare_completion(Cli& cli);
Run declare_stats(Cli& cli);

} // namespace mha::app
