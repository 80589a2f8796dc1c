// bash: one function that looks at the words before the cursor. Works without the package
// bash-completion; there is nothing to run.

#include "shells/shells.hpp"

#include <algorithm>

namespace mha::app {

namespace {

/// The beginning of the script: finds the word at the cursor.
constexpr std::string_view bash_start =
    R"(# bash completion of mha-inspect: made by `mha-inspect completion bash`.

_mha_inspect() {
  COMPREPLY=()
  local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} kept=
  # --name=value and NAME=FILE: bash passes the parts, or the whole word if = does not break words.
  if [[ $word == = ]]; then
    word=
  elif [[ $before == = ]]; then
    before=${COMP_WORDS[COMP_CWORD-2]}
  elif [[ $word == *=* ]]; then
    kept=${word%%=*}= before=${word%%=*} word=${word#*=}
  fi

  local command= i
  for ((i = 1; i < COMP_CWORD; i++)); do
    case ${COMP_WORDS[i]} in
      -*) ;;
      *) command=${COMP_WORDS[i]}; break ;;
    esac
  done

  local options= offer=files words=
)";

constexpr std::string_view bash_finish = R"(
  if [[ $word == -* && $offer != words && $offer != nothing && -z $kept ]]; then
    offer=words words=$options
  fi
  local IFS=$'\n'
  case $offer in
    files)
      compopt -o filenames 2>/dev/null
      COMPREPLY=($(compgen -f -- "$word"))
      ;;
    list) # the last of a, b, c
      [[ $word == *,* ]] && kept+=${word%,*},
      word=${word##*,}
      compopt -o nospace 2>/dev/null
      COMPREPLY=($(compgen -W "${words// /$IFS}" -- "$word"))
      ;;
    words) COMPREPLY=($(compgen -W "${words// /$IFS}" -- "$word")) ;;
  esac
  [[ -n $kept ]] && COMPREPLY=("${COMPREPLY[@]/#/$kept}")
  return 0
}

complete -F _mha_inspect mha-inspect
)";

std::string names_of(const Option& option, std::string_view separator) {
  std::string names = option.name;
  if (!option.letter.empty()) names += std::string(separator) + option.letter;
  return names;
}

/// The completions of an option's value.
std::string offer_of(const Option& option) {
  switch (option.completes) {
  case Completes::nothing:
    return "offer=nothing";
  case Completes::files:
    return "offer=files";
  case Completes::choices:
  case Completes::stages:
    break;
  }
  const bool stages = option.completes == Completes::stages;
  return fmt::format("offer={} words={}", option.joins ? "list" : "words",
                     stages ? "$stages" : quoted(joined(option.words())));
}

std::string command_branch(const Declared& declared) {
  const Cli& cli = declared.cli;
  std::vector<std::string> options{"--help"};
  std::vector<std::pair<std::string, std::string>> branches; // names, completions
  for (const Option& option : cli.options()) {
    options.push_back(names_of(option, " "));
    if (!option.off.empty()) options.push_back(option.off);
    if (option.is_flag()) continue;
    const std::string offer = offer_of(option);
    const auto same = std::find_if(branches.begin(), branches.end(),
                                   [&](const auto& branch) { return branch.second == offer; });
    if (same == branches.end())
      branches.emplace_back(names_of(option, "|"), offer);
    else
      same->first += "|" + names_of(option, "|");
  }
  std::string out =
      fmt::format("    {})\n      options={}\n", cli.command(), quoted(joined(options)));
  if (!cli.positional_choices().empty())
    out += fmt::format("      offer=words words={}\n", quoted(joined(cli.positional_choices())));
  if (!branches.empty()) out += "      case $before in\n";
  for (const auto& [names, offer] : branches)
    out += fmt::format("        {}) {} ;;\n", names, offer);
  if (!branches.empty()) out += "      esac\n";
  return out + "      ;;\n";
}

} // namespace

std::string bash_script(const std::vector<Declared>& commands) {
  std::vector<std::string> names;
  names.reserve(commands.size());
  for (const Declared& declared : commands) names.push_back(declared.cli.command());
  std::string out(bash_start);
  out += fmt::format("  local stages={}\n", quoted(joined(stage_words())));
  out += fmt::format("  local commands={}\n", quoted(joined(names)));
  out += "  case $command in\n";
  out += "    '') offer=words words=\"$commands help --help --version\" ;;\n";
  out += "    help) offer=words words=$commands ;;\n";
  for (const Declared& declared : commands) out += command_branch(declared);
  out += "  esac\n";
  return out + std::string(bash_finish);
}

} // namespace mha::app
