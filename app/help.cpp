#include "help.hpp"
#include "retype.hpp"

#include <mha/system/one_of.hpp>

#include <algorithm>

namespace mha::app {

namespace {

using render::TextStyle;

/// Where the explanations of options begin; a longer name gets a line of its own. In a narrow
/// window each of them does.
std::size_t column_of(const TextStyle& text_style) {
  return text_style.width >= 76 ? 30 : 8;
}

void paragraph(std::string& out, std::string_view text, std::size_t indent, std::size_t width) {
  for (const std::string& line : render::wrapped(text, width - indent))
    out += std::string(indent, ' ') + line + "\n";
}

void entry(std::string& out, const std::string& names, const std::string& help, std::size_t indent,
           std::size_t width) {
  out += "  " + names;
  const std::size_t last = names.rfind('\n'),
                    used = last == std::string::npos
                               ? 2 + render::display_width(names)
                               : render::display_width(std::string_view(names).substr(last + 1));
  std::vector<std::string> lines =
      render::wrapped(help, std::max<std::size_t>(width, indent + 20) - indent);
  if (lines.empty()) lines.emplace_back();
  const bool beside = used + 2 <= indent;
  out += beside ? std::string(indent - used, ' ') : "\n" + std::string(indent, ' ');
  out += lines[0] + "\n";
  for (std::size_t i = 1; i < lines.size(); ++i) out += std::string(indent, ' ') + lines[i] + "\n";
}

/// "none|linear|yarn" behind an option's name of `used` columns: broken after a "|" where the
/// window ends.
std::string fitted_value(const std::string& name, std::size_t used, std::size_t width) {
  std::string out, rest = name;
  while (!rest.empty()) {
    const std::size_t bar = rest.find('|');
    const std::string word = rest.substr(0, bar == std::string::npos ? bar : bar + 1);
    if (used + render::display_width(word) > width && !out.empty()) {
      out += "\n" + std::string(10, ' ');
      used = 10;
    }
    out += word;
    used += render::display_width(word);
    rest.erase(0, word.size());
  }
  return out;
}

std::string names_of(const Option& option, const TextStyle& text_style) {
  std::string names = option.letter.empty() ? "    " : text_style.bold(option.letter) + ", ";
  names += text_style.bold(option.name);
  if (!option.off.empty()) names += ", " + text_style.bold(option.off);
  if (!option.is_flag())
    names +=
        " " + fitted_value(option.value_name, render::display_width(names) + 3, text_style.width);
  return names;
}

void examples(std::string& out, const std::vector<Example>& list, const TextStyle& text_style) {
  out += "\n" + text_style.bold("Examples") + "\n";
  for (const Example& example : list) {
    for (const std::string& line : render::wrapped(example.text, text_style.width - 4))
      out += "  " + text_style.dim("# " + line) + "\n";
    out += "  " + fitted_command("mha-inspect " + example.line, 2, text_style.width) + "\n";
  }
}

/// The options of one heading; of rare ones that they are there, unless all were asked for.
void options_of(std::string& out, const std::string& group, const Command& command, const Cli& cli,
                bool all, const TextStyle& text_style) {
  std::vector<const Option*> shown;
  std::size_t hidden = 0;
  for (const Option& option : cli.options()) {
    if (option.group != group) continue;
    if (option.rare && !all)
      ++hidden;
    else
      shown.push_back(&option);
  }
  out += "\n";
  for (const std::string& line : render::wrapped(group, text_style.width))
    out += text_style.bold(line) + "\n";
  for (const Option* option : shown)
    entry(out, names_of(*option, text_style), option->help, column_of(text_style),
          text_style.width);
  if (hidden > 0)
    paragraph(out,
              fmt::format("{} options, such as --num-heads and --causal: `mha-inspect {} --help "
                          "all` lists them.",
                          hidden, command.name),
              2, text_style.width);
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
  for (const Option& option : cli.options()) add_once(groups, option.group);
  return groups;
}

std::string help_of_program(const TextStyle& text_style) {
  std::string out = text_style.bold("mha-inspect") + ": " + program_summary + "\n\n";
  out += text_style.bold("Usage") + "\n  mha-inspect COMMAND SOURCE... [options]\n\n" +
         text_style.bold("Commands") + "\n";
  std::size_t widest = 0;
  for (const Command& command : commands()) widest = std::max(widest, command.name.size());
  for (const Command& command : commands())
    entry(out, text_style.bold(command.name), std::string(command.summary), widest + 4,
          text_style.width);
  out += "\n";
  paragraph(out,
            "A SOURCE is a file (.json, .npz, .npy, .safetensors), a folder of .npy files or a "
            "checkpoint "
            "folder, NAME=FILE[:TENSOR] for a single tensor, or - for standard input.",
            0, text_style.width);
  examples(out, program_examples(), text_style);
  out += "\n";
  paragraph(out,
            "`mha-inspect COMMAND --help` explains a command, with `--help all` every setting, "
            "`mha-inspect --version` tells the version.",
            0, text_style.width);
  return out;
}

std::string help_of(const Command& command, const Cli& cli, bool all, const TextStyle& text_style) {
  std::string out;
  const std::string name = fmt::format("mha-inspect {}", command.name);
  for (const std::string& line :
       render::wrapped(fmt::format("{}: {}", name, command.summary), text_style.width))
    out += (out.empty() ? text_style.bold(name) + line.substr(std::min(name.size(), line.size()))
                        : line) +
           "\n";
  out += "\n";
  out += text_style.bold("Usage") + fmt::format("\n  mha-inspect {}", command.name);
  if (!cli.positional_name().empty()) {
    const bool optional = !cli.positional_required();
    out += fmt::format(" {}{}{}", optional ? "[" : "", cli.positional_name(), optional ? "]" : "");
  }
  out += cli.options().empty() ? "\n" : " [options]\n";
  if (!cli.about().empty()) {
    out += "\n";
    paragraph(out, cli.about(), 0, text_style.width);
  }
  if (!cli.positional_name().empty()) {
    out += "\n" + text_style.bold(cli.positional_name()) + "\n";
    paragraph(out, cli.positional_help(), 2, text_style.width);
  }
  for (const std::string& group : groups_of(cli))
    options_of(out, group, command, cli, all, text_style);
  if (!cli.examples().empty()) examples(out, cli.examples(), text_style);
  return out;
}

} // namespace mha::app
