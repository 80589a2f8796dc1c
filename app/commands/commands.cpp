#include "commands/commands.hpp"

#include <mha/system/named.hpp>

namespace mha::app {

namespace {

// clang-format off
constexpr Command every_command[] = {
  {"info", "list the contents of files, the detected layers and the settings in effect", declare_info},
  {"stages", "list every stage of attention with its name, shape and formula", declare_stages},
  {"names", "list every tensor and setting of a layer with its name, shape and meaning", declare_names},
  {"show", "print an overview of all stages, or the numbers of some", declare_show, true},
  {"dump", "write stages to files", declare_dump, true},
  {"map", "draw attention maps in the terminal or as PNG, SVG or PDF", declare_map, true},
  {"explain", "explain one query token step by step with numbers", declare_explain},
  {"stats", "measure every head: what it attends to and which kind it is", declare_stats, true},
  {"report", "write an HTML page for exploring heads in a browser", declare_report},
  {"diff", "compare every stage with another implementation", declare_diff},
  {"diagnose", "find the convention that explains a difference", declare_diagnose},
  {"convert", "convert a layer or a model to another format", declare_convert},
  {"bench", "time the computation of a layer in memory", declare_bench, true},
  {"predict", "predict the next tokens of a text with a whole model", declare_predict},
  {"effects", "measure the effect of each head and feed-forward on a model's prediction", declare_effects},
  {"circuits", "analyse the weights of each head: QK, OV, copying, composition", declare_circuits},
  {"tokens", "list a text's token numbers, pieces and offsets", declare_tokens},
  {"completion", "print a shell completion script", declare_completion},
};
// clang-format on

} // namespace

std::span<const Command> commands() {
  return every_command;
}

const Command& command_named(std::string_view name) {
  if (const Command* command = find_named(every_command, name)) return *command;
  throw UsageError(fmt::format("unknown command '{}'{}", name,
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
