#include "commands/commands.hpp"

#include <mha/system/named.hpp>

namespace mha::app {

namespace {

// clang-format off
constexpr Command every_command[] = {
  {"info", "what is in the files, which layers were recognised, the settings in force", declare_info},
  {"stages", "every step of attention: its name, shape and formula", declare_stages},
  {"names", "every tensor and setting that a layer may have: its name, shape and meaning", declare_names},
  {"show", "an overview of all steps, or the numbers of some", declare_show, true},
  {"dump", "write steps to files", declare_dump, true},
  {"map", "draw the maps of heads: in the terminal, as PNG, SVG or PDF", declare_map, true},
  {"explain", "one query token, step by step with its numbers", declare_explain},
  {"stats", "every head in numbers: what it attends to, and what it looks like", declare_stats, true},
  {"report", "a page to look at heads in a browser", declare_report},
  {"diff", "compare every step with another implementation's", declare_diff},
  {"diagnose", "find the convention that explains a difference", declare_diagnose},
  {"convert", "write a layer in canonical form in another format", declare_convert},
  {"bench", "time the computation of a layer in memory", declare_bench, true},
  {"predict", "what a whole model predicts for a text", declare_predict},
  {"effects", "what each head and feed-forward does to a whole model's prediction", declare_effects},
  {"circuits", "what each head's weights do by themselves: QK, OV, copying, composition", declare_circuits},
  {"tokens", "a text's token numbers, pieces and offsets", declare_tokens},
  {"completion", "print the completion script of a shell", declare_completion},
};
// clang-format on

} // namespace

std::span<const Command> commands() {
  return every_command;
}

const Command& command_named(std::string_view name) {
  if (const Command* command = find_named(every_command, name)) return *command;
  throw UsageError(fmt::format("no command is called '{}'{}", name,
                               did_you_mean(name, names_of_rows(every_command))));
}

std::vector<Declared> declared_commands() {
  std::vector<Declared> all;
  for (const Command& command : every_command) {
    Cli cli{std::string(command.name)};
    Run run = command.declare(cli);
    all.push_back({&command, std::move(cli), std::move(run)});
  }
  return all;
}

} // namespace mha::app
