#include "cli.hpp"
#include "cli_words.hpp"
#include "console.hpp"

#include <mha/naming/spelling.hpp>
#include <mha/system/one_of.hpp>
#include <mha/system/parse.hpp>
#include <mha/system/words.hpp>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>

#include <algorithm>
#include <cmath>

namespace mha::app {

namespace {

/// An option with the name and the letter of "--stage,-s".
Option named_option(std::string_view names, std::string help) {
  Option option;
  const std::size_t comma = names.find(',');
  option.name = names.substr(0, comma);
  if (comma != std::string_view::npos) option.letter = names.substr(comma + 1);
  option.help = std::move(help);
  return option;
}

Option value_option(std::string_view names, std::string value_name, std::string help) {
  Option option = named_option(names, std::move(help));
  option.value_name = std::move(value_name);
  return option;
}

std::size_t parsed_whole_number(std::string_view text) {
  const auto value = parse_number<std::size_t>(text);
  if (!value) throw Error("a whole number expected");
  return *value;
}

double parsed_finite(std::string_view text) {
  const auto value = parse_number<double>(text);
  if (!value || !std::isfinite(*value)) throw Error("a number expected");
  return *value;
}

const std::string& unchanged(const std::string& text) {
  return text;
}

/// An option that sets `target = read(value)`.
template <class Target, class Read> Option bound_option(std::string_view names,
                                                        std::string value_name, std::string help,
                                                        Target& target, Read read) {
  Option option = value_option(names, std::move(value_name), std::move(help));
  option.set = [&target, read](const std::string& text) { target = read(text); };
  return option;
}

void require_choice(const std::string& name, const std::string& value,
                    const std::vector<std::string>& choices) {
  if (choices.empty() || is_one_of(value, choices)) return;
  const std::vector<std::string_view> candidates(choices.begin(), choices.end());
  throw UsageError(fmt::format("{} is '{}': one of {} expected{}", name, value,
                               joined_texts(choices, ", "), did_you_mean(value, candidates)));
}

/// Sets an option's value. An error about the value is reported with the option's name before it.
void set_value(const Option& option, const std::string& value) {
  require_choice(option.name, value, option.choices);
  try {
    option.set(value);
  } catch (const UsageError&) {
    throw;
  } catch (const Error& error) {
    const std::string message = console_text(error);
    if (message.substr(0, 2) == "--")
      throw UsageError(message); // the message names the option itself
    throw UsageError(fmt::format("{} is '{}': {}", option.name, value, message));
  }
}

} // namespace

Option& Cli::add(Option option) {
  option.group = group_;
  option.rare = rare_;
  option.chooses = option.chooses && chooses_;
  return options_.emplace_back(std::move(option));
}

Option& Cli::option(std::string_view name) {
  return *std::ranges::find(options_, name, &Option::name);
}

Option& Cli::flag(std::string_view names, bool& target, std::string help) {
  Option option = named_option(names, std::move(help));
  option.set = [&target](const std::string& text) { target = text == "true"; };
  return add(std::move(option));
}

Option& Cli::value(std::string_view names, std::string value_name, std::string& target,
                   std::string help) {
  return add(bound_option(names, std::move(value_name), std::move(help), target, unchanged));
}

Option& Cli::value(std::string_view names, std::string value_name,
                   std::optional<std::string>& target, std::string help) {
  return add(bound_option(names, std::move(value_name), std::move(help), target, unchanged));
}

Option& Cli::value(std::string_view names, std::string value_name, std::size_t& target,
                   std::string help) {
  return add(
      bound_option(names, std::move(value_name), std::move(help), target, parsed_whole_number));
}

Option& Cli::value(std::string_view names, std::string value_name,
                   std::optional<std::size_t>& target, std::string help) {
  return add(
      bound_option(names, std::move(value_name), std::move(help), target, parsed_whole_number));
}

Option& Cli::value(std::string_view names, std::string value_name, double& target,
                   std::string help) {
  return add(bound_option(names, std::move(value_name), std::move(help), target, parsed_finite));
}

Option& Cli::value(std::string_view names, std::string value_name, std::optional<double>& target,
                   std::string help) {
  return add(bound_option(names, std::move(value_name), std::move(help), target, parsed_finite));
}

Option& Cli::list(std::string_view names, std::string value_name, std::vector<std::string>& target,
                  std::string help) {
  Option option = value_option(names, std::move(value_name), std::move(help));
  option.joins = true;
  option.set = [&target](const std::string& text) {
    target = words_of<std::string>(text, ",");
    if (target.empty()) throw Error("a name expected");
  };
  return add(std::move(option));
}

Option& Cli::choice(std::string_view names, std::vector<std::string> choices, std::string& target,
                    std::string help) {
  Option option = value_option(names, joined_texts(choices, "|"), std::move(help));
  option.choices = std::move(choices);
  option.completes = Completes::choices;
  option.set = [&target](const std::string& text) { target = text; };
  return add(std::move(option));
}

void Cli::positionals(std::string name, std::string help, std::vector<std::string>& target,
                      bool required, std::vector<std::string> choices) {
  positional_name_ = std::move(name);
  positional_help_ = std::move(help);
  positionals_ = &target;
  positional_required_ = required;
  positional_choices_ = std::move(choices);
}

void Cli::refuse_unknown(const std::string& word) const {
  if (word.empty() || word[0] != '-')
    throw UsageError(fmt::format("unexpected argument '{}': {} takes no files", word, command_));
  const std::string name = word.substr(0, word.find('='));
  std::vector<std::string_view> names{"--help"};
  for (const Option& option : options_) {
    names.push_back(option.name);
    if (!option.off.empty()) names.push_back(option.off);
  }
  // Suggest `--layer` for `-layer`, and `--num-heads` for `--num_heads`.
  std::string corrected = name.substr(0, 2) == "--" ? name : "-" + name;
  std::replace(corrected.begin(), corrected.end(), '_', '-');
  std::string hint = name.size() == 2 ? std::string() : did_you_mean(corrected, names);
  // Suggest a setting for one of its other names: `--num-heads`, not `--head`, for `--heads`.
  std::string setting = "--" + same_setting(corrected.substr(2));
  std::replace(setting.begin(), setting.end(), '_', '-');
  if (is_one_of(setting, names)) hint = fmt::format("; did you mean '{}'?", setting);
  throw UsageError(fmt::format("unknown option '{}'{}", name, hint));
}

namespace {

/// Whether an option's value may be empty, which only a text may be.
bool may_be_empty(const Option& option) {
  return option.value_name == "TEXT";
}

/// Throws UsageError if an option that takes one value is given two different ones.
void require_one_value(const Option& option, const std::vector<std::string>& values) {
  const auto other = std::ranges::find_if(
      values, [&](const std::string& value) { return value != values.front(); });
  if (other == values.end()) return;
  if (option.is_flag())
    throw UsageError(
        fmt::format("{} and {} contradict each other; leave one out", option.name, option.off));
  throw UsageError(fmt::format("{} is set to '{}' and to '{}', but takes one value; leave one out",
                               option.name, values.front(), *other));
}

/// Sets an option to its values as typed. Throws UsageError for an invalid value.
void set_values(const Option& option, std::vector<std::string> values, const CLI::App& parser) {
  for (std::string& value : values) {
    if (value == empty_value) value.clear();
    if (option.is_flag() && value != "true" && value != "false")
      throw UsageError(fmt::format("{} is '{}': it takes no value", option.name, value));
    if (value.empty() && !may_be_empty(option))
      throw UsageError(fmt::format("{} is '': a value expected", option.name));
  }
  for (const std::string& value : values)
    if (!option.is_flag() && value.size() > 1 && value[0] == '-' &&
        parser.get_option_no_throw(value))
      throw UsageError(fmt::format("{} needs a value, but {} is an option", option.name, value));
  if (option.repeats) {
    for (const std::string& value : values) set_value(option, value);
    return;
  }
  std::string value = values.front();
  if (option.joins) {
    value.clear();
    for (const std::string& part : values) value += (value.empty() ? "" : ",") + part;
  } else {
    require_one_value(option, values);
  }
  set_value(option, value);
}

/// Whether a word is a long option after a single dash: `-layer`, which the parser would read as
/// `-l ayer`.
bool is_long_with_one_dash(const std::string& word, const CLI::App& parser) {
  const std::string name = word.substr(0, word.find('='));
  return name.size() > 2 && name[0] == '-' && name[1] != '-' &&
         parser.get_option_no_throw("-" + name) != nullptr;
}

} // namespace

void Cli::check_positionals() const {
  if (positional_required_ && positionals_->empty())
    throw UsageError(fmt::format("{} needs a {}", command_,
                                 positional_name_.substr(0, positional_name_.find("..."))));
  if (positional_choices_.empty()) return;
  if (positionals_->size() > 1)
    throw UsageError(fmt::format("{} takes one {}", command_, positional_name_));
  for (const std::string& word : *positionals_)
    require_choice(positional_name_, word, positional_choices_);
}

std::vector<std::string> Cli::names_from(std::size_t first) const {
  std::vector<std::string> names;
  for (std::size_t i = first; i < options_.size(); ++i) names.push_back(options_[i].name);
  return names;
}

void Cli::check_unused() const {
  for (const auto& [names, why] : unused_)
    for (const std::string& name : *given_)
      if (is_one_of(name, names))
        if (const std::string reason = why(); !reason.empty())
          throw UsageError(name + ": " + reason);
}

bool Cli::parse(std::vector<std::string> arguments) const {
  take_former(arguments, options_, *notes_);
  take_families(arguments, options_);
  CLI::App parser;
  parser.set_help_flag();
  parser.allow_extras(); // unknown options remain, for refuse_unknown()
  bool help = false;
  parser.add_flag("--help,-h", help);

  std::vector<std::string> words;
  if (positionals_) parser.add_option("sources", words);

  std::vector<std::pair<const Option*, CLI::Option*>> declared;
  const auto accept_any = [](const CLI::results_t&) { return true; };
  for (const Option& option : options_) {
    std::string names = option.letter.empty() ? option.name : option.name + "," + option.letter;
    if (!option.off.empty()) names += "," + option.off + "{false}";
    CLI::Option* entry =
        option.is_flag() ? parser.add_flag(names) : parser.add_option(names, accept_any);
    if (!option.is_flag()) entry->expected(1);
    entry->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
    declared.emplace_back(&option, entry);
  }

  for (const std::string& word : arguments) {
    if (word == "--") break;
    if (is_long_with_one_dash(word, parser)) refuse_unknown(word);
  }
  refuse_equals_sign(arguments, options_);
  std::vector<std::string> reversed = guarded(with_empty_values(arguments, options_));
  std::reverse(reversed.begin(), reversed.end());
  try {
    parser.parse(std::move(reversed));
  } catch (const CLI::ArgumentMismatch& error) {
    // The parser's message begins with the option's name.
    const std::string message = error.what();
    throw UsageError(message.substr(0, message.find_first_of(": ")) + " needs a value");
  } catch (const CLI::Error& error) {
    throw UsageError(error.what());
  }
  if (help) return false;
  for (const std::string& unknown : unguarded(parser.remaining()))
    if (unknown != "--") refuse_unknown(unknown);

  for (const auto& [option, entry] : declared)
    if (entry->count() > 0) {
      given_->push_back(option->name);
      const std::vector<std::string> values = unguarded(entry->results());
      if (option->chooses)
        *choices_ += fmt::format("{} {}\n", option->name, joined_texts(values, ","));
      set_values(*option, values, parser);
    }
  if (positionals_) *positionals_ = unguarded(std::move(words));
  check_positionals();
  for (const std::function<void()>& check : checks_) check();
  check_unused();
  return true;
}

} // namespace mha::app
