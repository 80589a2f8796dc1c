#include "commands/commands.hpp"

namespace mha::app {

namespace {

// clang-format off
constexpr Command list[] = {
  {"info", "what is in the files, which layers were recognised, the settings in force", declare_info},
  {"stages", "every step of attention: its name, shape and formula", declare_stages},
  {"show", "an overview of all steps, or the numbers of some", declare_show, true},
  {"dump", "write steps to files", declare_dump, true},
  {"explain", "one query token, step by step with its numbers", declare_explain},
  {"convert", "write a layer in canonical form in another format", declare_convert},
  {"bench", "time the computation of a layer in memory", declare_bench, true},
};
// clang-format on

} // namespace

std::span<const Command> commands() {
  return list;
}

const Command& command_named(std::string_view name) {
  std::vector<std::string_view> names;
  for (const Command& command : list) {
    if (command.name == name) return command;
    names.push_back(command.name);
  }
  throw UsageError(fmt::format("no command is called '{}'{}", name, did_you_mean(name, names)));
}

} // namespace mha::app
