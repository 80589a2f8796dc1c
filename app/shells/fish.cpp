// fish: one `complete` line for each option.

#include "shells/shells.hpp"
#include <mha/system/characters.hpp>

namespace mha::app {

namespace {

std::string literal(std::string_view text) {
  return quoted(with_replaced(text, {{'\\', "\\\\"}}), "\\'");
}

/// -l name -s n: fish names options without their dashes.
std::string option_names(const Option& option) {
  std::string names = " -l " + option.name.substr(2);
  if (!option.letter.empty()) names += " -s " + option.letter.substr(1);
  return names;
}

/// The completions of a value: -x for only these words, -r for files.
std::string fish_action(const Option& option) {
  if (option.is_flag()) return "";
  switch (option.completes) {
  case Completes::files:
    return " -r -F";
  case Completes::nothing:
    return " -x";
  case Completes::stages:
    return " -x -a '(__fish_append , $__mha_inspect_stages)'";
  case Completes::choices:
    return " -x -a " + (option.joins ? literal("(__fish_append , " + joined(option.words()) + ")")
                                     : literal(joined(option.words())));
  }
  return "";
}

} // namespace

std::string fish_script(const std::vector<Declared>& commands) {
  std::string out = "# fish completion of mha-inspect: made by `mha-inspect completion fish`.\n\n";
  std::string names;
  for (const Declared& declared : commands) names += " " + declared.cli.command();
  out += fmt::format("set -g __mha_inspect_stages {}\n\n", joined(stage_words()));
  const auto line = [&](const std::string& condition, const std::string& rest,
                        std::string_view help) {
    out += fmt::format("complete -c mha-inspect -n {}{} -d {}\n", literal(condition), rest,
                       literal(help));
  };
  const std::string none = "not __fish_seen_subcommand_from" + names + " help";
  out += fmt::format("complete -c mha-inspect -n {} -f\n", literal(none));
  for (const Declared& declared : commands)
    line(none, " -a " + declared.cli.command(), declared.command->summary);
  line(none, " -a help", "describe a command, its options and examples");
  line(none, " -l version", "the version");
  out +=
      "complete -c mha-inspect -l help -s h -d 'describe the command, its options and examples'\n";
  line("__fish_seen_subcommand_from help", " -f -a " + literal(names.substr(1)), "command");
  for (const Declared& declared : commands) {
    const Cli& cli = declared.cli;
    const std::string inside = "__fish_seen_subcommand_from " + cli.command();
    out += "\n";
    if (!cli.positional_choices().empty())
      line(inside, " -f -a " + literal(joined(cli.positional_choices())), cli.positional_name());
    for (const Option& option : cli.options()) {
      line(inside, option_names(option) + fish_action(option), brief(option.help));
      if (!option.off.empty())
        line(inside, " -l " + option.off.substr(2), "the opposite of " + option.name);
    }
  }
  return out;
}

} // namespace mha::app
