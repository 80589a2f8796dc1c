// zsh: specifications for _arguments, one list for each command.

#include "shells/shells.hpp"
#include <mha/system/characters.hpp>

namespace mha::app {

namespace {

/// A description inside [] of a specification.
std::string described(std::string_view help) {
  return with_replaced(brief(help), {{'[', "\\["}, {']', "\\]"}, {':', "\\:"}, {'\\', "\\\\"}});
}

/// A value's name with escaped colons.
std::string named(std::string_view name) {
  return with_replaced(name, {{':', "\\:"}});
}

/// The completions of an option's value.
std::string zsh_action(const Option& option) {
  switch (option.completes) {
  case Completes::nothing:
    return " ";
  case Completes::files:
    return "_files";
  case Completes::stages:
    return "_mha_inspect_stages";
  case Completes::choices:
    return option.joins ? "{_sequence compadd - " + joined(option.words()) + "}"
                        : "(" + joined(option.words()) + ")";
  }
  return " ";
}

void specify(std::string& out, const Option& option) {
  const std::string others =
      option.joins
          ? "*"
          : fmt::format("({}{}{})", option.name, option.letter.empty() ? "" : " ", option.letter);
  const auto line = [&](const std::string& name, std::string_view ending, bool takes_value) {
    std::string spec = others + name + std::string(ending) + "[" + described(option.help) + "]";
    if (takes_value) spec += ":" + named(option.value_name) + ":" + zsh_action(option);
    out += "        " + quoted(spec) + "\n";
  };
  const bool value = !option.is_flag();
  if (!option.letter.empty()) line(option.letter, value ? "+" : "", value);
  line(option.name, value ? "=" : "", value);
  if (!option.off.empty()) line(option.off, "", false);
}

void add_command(std::string& out, const Declared& declared) {
  const Cli& cli = declared.cli;
  out += fmt::format(
      "    {})\n      specs=(\n        '(- *)--help[describe the command, its options and "
      "examples]'\n",
      cli.command());
  for (const Option& option : cli.options()) specify(out, option);
  if (!cli.positional_choices().empty())
    out += "        " +
           quoted(fmt::format("1:{}:({})", named(cli.positional_name()),
                              joined(cli.positional_choices()))) +
           "\n";
  else if (!cli.positional_name().empty())
    out += "        '*:SOURCE:_mha_inspect_source'\n";
  out += "      )\n      ;;\n";
}

constexpr std::string_view zsh_start = R"(#compdef mha-inspect
# zsh completion of mha-inspect: made by `mha-inspect completion zsh`.

_mha_inspect_source() { # a file, or NAME=FILE
  compset -P '[A-Za-z_][A-Za-z0-9_.]#='
  _files
}

)";

constexpr std::string_view zsh_finish = R"(  esac
  _arguments -s -S $specs
}

if [[ $funcstack[1] == _mha-inspect ]]; then
  _mha_inspect "$@"
else
  compdef _mha_inspect mha-inspect
fi
)";

} // namespace

std::string zsh_script(const std::vector<Declared>& commands) {
  std::string out(zsh_start);
  out += "_mha_inspect_stages() {\n  _sequence compadd - " + joined(stage_words()) + "\n}\n\n";
  out += "_mha_inspect_commands() {\n  local -a commands\n  commands=(\n";
  for (const Declared& declared : commands)
    out += "    " + quoted(declared.cli.command() + ":" + named(declared.command->summary)) + "\n";
  out += "    'help:describe a command, its options and examples'\n  )\n"
         "  _describe command commands\n}\n\n";
  out += R"(_mha_inspect() {
  setopt localoptions extendedglob
  local curcontext=$curcontext context state state_descr line
  local -A opt_args
  local -a specs
  _arguments -C \
    '(- *)--help[the commands, and lines to try]' \
    '(- *)--version[the version]' \
    '1:command:_mha_inspect_commands' \
    '*::argument:->arguments'
  [[ $state == arguments ]] || return
  case $words[1] in
    help) specs=('1:command:_mha_inspect_commands') ;;
)";
  for (const Declared& declared : commands) add_command(out, declared);
  return out + std::string(zsh_finish);
}

} // namespace mha::app
