#include "help.hpp"

#include <algorithm>

namespace mha::app {

namespace {

using render::Look;

/// Where the explanations of options begin; a longer name gets a line of its own.
constexpr std::size_t column = 30;

void paragraph(std::string& out, std::string_view text, std::size_t indent, std::size_t width) {
  for (const std::string& line : render::wrapped(text, width - indent))
    out += std::string(indent, ' ') + line + "\n";
}

void entry(std::string& out, const std::string& names, const std::string& help, std::size_t indent,
           std::size_t width) {
  out += "  " + names;
  const std::size_t used = 2 + render::display_width(names);
  std::vector<std::string> lines =
      render::wrapped(help, std::max<std::size_t>(width, indent + 30) - indent);
  if (lines.empty()) lines.emplace_back();
  const bool beside = used + 2 <= indent;
  out += beside ? std::string(indent - used, ' ') : "\n" + std::string(indent, ' ');
  out += lines[0] + "\n";
  for (std::size_t i = 1; i < lines.size(); ++i) out += std::string(indent, ' ') + lines[i] + "\n";
}

std::string names_of(const Option& option, const Look& look) {
  std::string names = option.letter.empty() ? "    " : look.bold(option.letter) + ", ";
  names += look.bold(option.name);
  if (!option.off.empty()) names += ", " + look.bold(option.off);
  if (!option.is_flag()) names += " " + option.value_name;
  return names;
}

void examples(std::string& out, const std::vector<Example>& list, const Look& look) {
  out += "\n" + look.bold("Examples") + "\n";
  for (const Example& example : list) {
    out += "  " + look.dim("# " + example.text) + "\n";
    out += "  mha-inspect " + example.line + "\n";
  }
}

} // namespace

const char* const program_summary = "every step of multi-head attention, visible";
const char* const program_about =
    "Takes a layer's input and weights from files and prints, writes or explains any intermediate "
    "of multi-head attention: queries, keys and values of every head, scores before and after "
    "scaling and masking, attention weights, each head's output, their concatenation, the output.";

const std::vector<Example>& program_examples() {
  static const std::vector<Example> list{
      {"info data/induction", "what is in a checkpoint"},
      {"show data/quickstart.json", "every step of a layer, one line each"},
      {"show data/quickstart.json --stage weights --head 0",
       "the attention weights of the first head"},
      {"dump data/quickstart.json -o stages.npz", "every step as arrays"}};
  return list;
}

std::vector<std::string> groups_of(const Cli& cli) {
  std::vector<std::string> groups;
  for (const Option& option : cli.options())
    if (std::find(groups.begin(), groups.end(), option.group) == groups.end())
      groups.push_back(option.group);
  return groups;
}

std::string help_of_program(const Look& look) {
  std::string out = look.bold("mha-inspect") + ": " + program_summary + "\n\n";
  out += look.bold("Usage") + "\n  mha-inspect COMMAND SOURCE... [options]\n\n" +
         look.bold("Commands") + "\n";
  std::size_t widest = 0;
  for (const Command& command : commands()) widest = std::max(widest, command.name.size());
  for (const Command& command : commands())
    entry(out, look.bold(command.name), std::string(command.summary), widest + 4, look.width);
  out += "\n";
  paragraph(out,
            "A SOURCE is a file (.json, .npz, .npy, .safetensors), a folder of .npy files or a "
            "checkpoint "
            "folder, NAME=FILE[:TENSOR] for a single tensor, or - for standard input.",
            0, look.width);
  examples(out, program_examples(), look);
  out += "\n`mha-inspect COMMAND --help` explains a command, `mha-inspect --version` tells the "
         "version.\n";
  return out;
}

std::string help_of(const Command& command, const Cli& cli, const Look& look) {
  std::string out = look.bold(fmt::format("mha-inspect {}", command.name)) +
                    fmt::format(": {}\n\n", command.summary);
  out += look.bold("Usage") + fmt::format("\n  mha-inspect {}", command.name);
  if (!cli.positional_name().empty()) {
    const bool optional = !cli.positional_required();
    out += fmt::format(" {}{}{}", optional ? "[" : "", cli.positional_name(), optional ? "]" : "");
  }
  out += cli.options().empty() ? "\n" : " [options]\n";
  if (!cli.about().empty()) {
    out += "\n";
    paragraph(out, cli.about(), 0, look.width);
  }
  if (!cli.positional_name().empty()) {
    out += "\n" + look.bold(cli.positional_name()) + "\n";
    paragraph(out, cli.positional_help(), 2, look.width);
  }
  for (const std::string& group : groups_of(cli)) {
    out += "\n" + look.bold(group) + "\n";
    for (const Option& option : cli.options())
      if (option.group == group)
        entry(out, names_of(option, look), option.help, column, look.width);
  }
  if (!cli.examples().empty()) examples(out, cli.examples(), look);
  return out;
}

} // namespace mha::app
