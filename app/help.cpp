#include "help.hpp"
#include "retype.hpp"

#include <mha/system/one_of.hpp>
#include <mha/system/words.hpp>

#include <algorithm>
#include <map>

namespace mha::app {

namespace {

using render::TextStyle;

/// The column where the descriptions of options begin. A longer name gets a line of its own, as
/// every name does in a narrow window.
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

/// A value's name such as "none|linear|yarn", wrapped after a "|". `used`: the columns before it.
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
    out += "  " + wrapped_command("mha-inspect " + example.line, 2, text_style.width) + "\n";
  }
}

/// The options below one heading with their full descriptions.
std::string options_of(const std::string& group, const Cli& cli, const TextStyle& text_style) {
  std::string out = "\n";
  for (const std::string& line : render::wrapped(group, text_style.width))
    out += text_style.bold(line) + "\n";
  for (const Option& option : cli.options())
    if (option.group == group)
      entry(out, names_of(option, text_style), option.help, column_of(text_style),
            text_style.width);
  return out;
}

/// "--minus-" for "--minus-layer"; "--" for an option of one word.
std::string stem_of(const Option& option) {
  return option.name.substr(0, option.name.rfind('-') + 1);
}

/// Whether options below one heading that differ in their last word are listed as one: at least
/// three, or two beside an option that is their stem (--answer). Settings of layers are not merged,
/// because only their number is shown.
bool is_family(const std::vector<Option>& members, const Cli& cli) {
  const std::string stem = stem_of(members[0]);
  if (stem == "--" || members[0].rare) return false;
  const bool has_stem = std::ranges::any_of(
      cli.options(), [&](const Option& option) { return option.name + "-" == stem; });
  return members.size() >= (has_stem ? 2 : 3);
}

/// "--minus-{layer,head,ids}".
Option folded(const std::vector<Option>& members) {
  const std::string stem = stem_of(members[0]);
  std::vector<std::string> values;
  for (const Option& member : members) add_once(values, member.value_name);
  Option family;
  family.name = fmt::format("{}{{{}}}", stem, joined_texts(members, ",", [&](const Option& member) {
                              return member.name.substr(stem.size());
                            }));
  family.value_name = joined_texts(values, "|");
  family.help = joined_texts(members, "; ", &Option::help);
  return family;
}

/// The options below one heading, with families merged.
std::vector<Option> folded_options(const std::string& group, const Cli& cli) {
  std::map<std::string, std::vector<Option>> families;
  for (const Option& option : cli.options())
    if (option.group == group) families[stem_of(option)].push_back(option);
  std::vector<Option> list;
  for (const Option& option : cli.options()) {
    if (option.group != group) continue;
    const std::vector<Option>& members = families[stem_of(option)];
    if (!is_family(members, cli))
      list.push_back(option);
    else if (option.name == members[0].name)
      list.push_back(folded(members));
  }
  return list;
}

/// The options below one heading, cut to one line each.
std::string option_lines(const std::string& group, const Cli& cli, const TextStyle& text_style) {
  std::string out = "\n" + text_style.bold(render::shortened(group, text_style.width)) + "\n";
  const std::size_t column = column_of(text_style);
  for (const Option& option : folded_options(group, cli)) {
    std::string names = option.name;
    if (!option.letter.empty()) names = option.letter + ", " + names;
    constexpr std::size_t least = 6; // of a value's name
    if (const std::size_t used = names.size() + 5; !option.is_flag() && used + least <= column)
      names += " " + render::shortened(option.value_name, column - used);
    const std::string line =
        "  " + render::pad_right(names, column > 10 ? column - 4 : 0) + "  " + option.help;
    out += render::shortened(line, text_style.width) + "\n";
  }
  return out;
}

/// The names of the options below one heading. Settings of layers are only counted.
std::string names_of_group(const std::string& group, const Cli& cli, const TextStyle& text_style) {
  std::string names;
  std::size_t settings = 0;
  for (const Option& option : folded_options(group, cli))
    if (option.rare)
      ++settings;
    else
      names += (names.empty() ? "" : " ") + option.name;
  if (settings > 0)
    names = fmt::format("{} settings, such as --num-heads 4 and --causal, or num_heads=4 and "
                        "causal=true among the sources; `mha-inspect names` lists them.",
                        settings);
  std::string out = "\n" + text_style.bold(render::shortened(group, text_style.width)) + "\n";
  paragraph(out, names, 2, text_style.width);
  return out;
}

bool is_of_settings(const std::string& group, const Cli& cli) {
  return std::ranges::any_of(
      cli.options(), [&](const Option& option) { return option.group == group && option.rare; });
}

std::size_t lines_in(const std::string& text) {
  return static_cast<std::size_t>(std::ranges::count(text, '\n'));
}

/// As many examples as fit into `room` lines, in order; one that does not fit is skipped.
std::string some_examples(const std::vector<Example>& list, std::size_t room,
                          const TextStyle& text_style) {
  std::vector<Example> shown;
  std::string text;
  for (const Example& example : list) {
    std::vector<Example> more = shown;
    more.push_back(example);
    std::string longer;
    examples(longer, more, text_style);
    if (lines_in(longer) > room) continue;
    shown = std::move(more), text = std::move(longer);
  }
  return text;
}

/// A page of at most 60 lines of 80 columns: examples, then the options below each heading, one on
/// a line as long as there is room, else only their names.
std::string page_of(const Command& command, const Cli& cli, std::string out,
                    const TextStyle& text_style) {
  constexpr std::size_t most_lines = 60, of_examples = 12;
  out += some_examples(cli.examples(), of_examples, text_style);
  std::string end = "\n";
  paragraph(end,
            fmt::format("`mha-inspect {} --help` describes every option in full.", command.name), 0,
            text_style.width);
  std::vector<std::string> groups;
  std::size_t lines = lines_in(out) + lines_in(end);
  for (const std::string& group : groups_of(cli)) {
    groups.push_back(names_of_group(group, cli, text_style));
    lines += lines_in(groups.back());
  }
  std::size_t at = 0;
  for (const std::string& group : groups_of(cli)) {
    std::string& text = groups[at++];
    if (is_of_settings(group, cli)) continue;
    std::string longer = option_lines(group, cli, text_style);
    if (lines + lines_in(longer) - lines_in(text) > most_lines) continue;
    lines += lines_in(longer) - lines_in(text);
    text = std::move(longer);
  }
  for (const std::string& text : groups) out += text;
  return out + end;
}

} // namespace

const char* const program_summary = "every step of multi-head attention, visible";
const char* const program_about =
    "Reads a layer's input and weights from files, and prints, writes or explains every "
    "intermediate result of multi-head attention: queries, keys and values of each head, scores "
    "before and after scaling and masking, attention weights, each head's output, their "
    "concatenation and the layer's output.";

const std::vector<Example>& program_examples() {
  static const std::vector<Example> list{
      {"info data/induction", "list the contents of a checkpoint"},
      {"show data/quickstart.json", "show every step of a layer, one line each"},
      {"show data/quickstart.json --stage weights --head 0",
       "print the attention weights of the first head"},
      {"dump data/quickstart.json -o stages.npz", "write every step as an array"}};
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
            "A SOURCE is a file (.json, .npz, .npy, .safetensors, .pt, .gguf, .onnx), a folder of "
            ".npy files or a checkpoint folder, NAME=FILE[:TENSOR] for a single tensor, or - for "
            "standard input.",
            0, text_style.width);
  examples(out, program_examples(), text_style);
  out += "\n";
  paragraph(out,
            "`mha-inspect COMMAND -h` prints a page on a command, `--help` describes all its "
            "options; `mha-inspect --version` prints the version.",
            0, text_style.width);
  return out;
}

std::string help_of(const Command& command, const Cli& cli, HelpDepth depth,
                    const TextStyle& text_style) {
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
  if (depth == HelpDepth::page) return page_of(command, cli, std::move(out), text_style);
  if (!cli.about().empty()) {
    out += "\n";
    paragraph(out, cli.about(), 0, text_style.width);
  }
  if (!cli.positional_name().empty()) {
    out += "\n" + text_style.bold(cli.positional_name()) + "\n";
    paragraph(out, cli.positional_help(), 2, text_style.width);
  }
  for (const std::string& group : groups_of(cli)) out += options_of(group, cli, text_style);
  if (!cli.examples().empty()) examples(out, cli.examples(), text_style);
  return out;
}

} // namespace mha::app
