#pragma once
// A thin layer over CLI11, which only cli.cpp includes. A command declares its options once, as
// plain data bound to its variables; parsing, help, man pages and shell completions are all made
// from these declarations.

#include <mha/system/error.hpp>

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace mha::app {

/// Wrong usage. The message gets a hint to the command's --help.
class UsageError : public Error {
public:
  using Error::Error;
};

/// What a shell offers as an option's value.
enum class Completes : std::uint8_t { nothing, choices, files, stages };

/// The declaration of one option.
struct Option {
  std::string name;       ///< "--stage"
  std::string letter;     ///< "-s", or ""
  std::string off;        ///< "--no-causal" for a flag that can be turned off, or ""
  std::string value_name; ///< "NAME[,NAME]"; "" for a flag
  std::string help;
  std::string group;                ///< its heading in the help
  bool rare = false;                ///< one of many: the page of -h shows only their number
  std::vector<std::string> choices; ///< the allowed values; empty: any
  std::vector<std::string> offered; ///< the words that a shell offers, if not `choices`
  Completes completes = Completes::nothing;
  /// Spellings of earlier versions and the words that replace them, with a note, until 0.4.
  std::vector<std::pair<std::string, std::vector<std::string>>> former;
  /// Other spellings, such as "--minus-causal", with the prefix of the value, "causal=".
  std::vector<std::pair<std::string, std::string>> families;
  bool chooses = true;  ///< affects which numbers a result has, or how they are written
  bool joins = false;   ///< may be repeated: the values are joined with commas
  bool repeats = false; ///< may be repeated: each value is set. Otherwise two values are an error
  std::function<void(const std::string&)> set; ///< a flag gets "true" or "false"

  bool is_flag() const { return value_name.empty(); }
  // For declarations in one expression.
  Option& offers(Completes what) { return completes = what, *this; }
  Option& offers(std::vector<std::string> words) {
    return completes = Completes::choices, offered = std::move(words), *this;
  }
  /// Adds an earlier spelling, which is replaced by this option with `value`, or with the value
  /// that follows if `value` is "".
  Option& formerly(std::string spelling, std::string value = {}) {
    former.push_back({std::move(spelling), {name}});
    if (!value.empty()) former.back().second.push_back(std::move(value));
    return *this;
  }
  const std::vector<std::string>& words() const { return offered.empty() ? choices : offered; }
};

/// Runs a command whose options are parsed, and returns the exit code.
using Run = std::function<int()>;

/// A command line to copy, and what it does.
struct Example {
  std::string line; ///< without the program's name: "show layer.npz -s weights"
  std::string text;
};

/// The declarations of one command. Names are written "--stage,-s".
class Cli {
public:
  explicit Cli(std::string command) : command_(std::move(command)) {}

  /// Starts a group of options with this heading. `rare`: -h shows only their number.
  void group(std::string title, bool rare = false) {
    group_ = std::move(title), rare_ = rare, chooses_ = true;
  }
  /// Starts a group of options that do not choose results: where a layer or a text comes from, how
  /// the program behaves.
  void shared_group(std::string title, bool rare = false) {
    group(std::move(title), rare), chooses_ = false;
  }

  Option& flag(std::string_view names, bool& target, std::string help);
  Option& value(std::string_view names, std::string value_name, std::string& target,
                std::string help);
  Option& value(std::string_view names, std::string value_name, std::optional<std::string>& target,
                std::string help);
  /// A whole number that is not negative.
  Option& value(std::string_view names, std::string value_name, std::size_t& target,
                std::string help);
  Option& value(std::string_view names, std::string value_name, std::optional<std::size_t>& target,
                std::string help);
  /// A finite number.
  Option& value(std::string_view names, std::string value_name, double& target, std::string help);
  Option& value(std::string_view names, std::string value_name, std::optional<double>& target,
                std::string help);
  /// A list separated by commas; a repeated option adds to it.
  Option& list(std::string_view names, std::string value_name, std::vector<std::string>& target,
               std::string help);
  /// One of the given words.
  Option& choice(std::string_view names, std::vector<std::string> choices, std::string& target,
                 std::string help);
  /// The option of that name, which must be declared already.
  Option& option(std::string_view name);
  /// Any other option: `set` gets the text, and throws Error for an invalid value.
  Option& add(Option option);

  /// Declares positional arguments, such as "SOURCE...". Without this declaration they are errors.
  /// With `choices`, each must be one of these words.
  void positionals(std::string name, std::string help, std::vector<std::string>& target,
                   bool required, std::vector<std::string> choices = {});
  /// Describes the command in a few sentences, for its help.
  void about(std::string text) { about_ = std::move(text); }
  /// Adds a check that runs when all options are set, and throws UsageError for options that
  /// contradict each other.
  void check(std::function<void()> checks) { checks_.push_back(std::move(checks)); }
  /// Adds a check that runs after the command.
  void at_end(std::function<void()> check) { ends_.push_back(std::move(check)); }
  void end() const {
    for (const std::function<void()>& check : ends_) check();
  }
  /// Declares when options have no effect: if `why` returns a reason, each given one of them is an
  /// error, "--tokens: REASON".
  void unused(std::vector<std::string> names, std::function<std::string()> why) {
    unused_.push_back({std::move(names), std::move(why)});
  }
  /// The names of the given options, in the order of their declaration. Filled by parse().
  std::shared_ptr<const std::vector<std::string>> given() const { return given_; }
  /// The given options that choose results, one a line ("--by head"). Runs with the same choices
  /// write the same results for the same layers and texts. Filled by parse().
  std::shared_ptr<const std::string> choices() const { return choices_; }
  /// The names of the options declared from number `first` on.
  std::vector<std::string> names_from(std::size_t first) const;
  void example(std::string line, std::string text) {
    examples_.push_back({std::move(line), std::move(text)});
  }

  /// Sets every bound variable. Returns false for --help. Throws UsageError.
  bool parse(std::vector<std::string> arguments) const;
  /// One sentence for each former spelling that parse() has found.
  const std::vector<std::string>& notes() const { return *notes_; }

  const std::string& command() const { return command_; }
  const std::string& about() const { return about_; }
  const std::deque<Option>& options() const { return options_; }
  const std::vector<Example>& examples() const { return examples_; }
  const std::string& positional_name() const { return positional_name_; }
  const std::string& positional_help() const { return positional_help_; }
  bool positional_required() const { return positional_required_; }
  const std::vector<std::string>& positional_choices() const { return positional_choices_; }

private:
  [[noreturn]] void refuse_unknown(const std::string& word) const;
  void check_positionals() const;
  void check_unused() const;

  std::string command_, about_, group_ = "Options";
  bool rare_ = false, chooses_ = true;
  std::deque<Option> options_; ///< a deque: references to options stay valid
  std::vector<Example> examples_;
  std::vector<std::function<void()>> checks_, ends_;
  std::vector<std::pair<std::vector<std::string>, std::function<std::string()>>> unused_;
  std::shared_ptr<std::vector<std::string>> given_ = std::make_shared<std::vector<std::string>>();
  std::shared_ptr<std::string> choices_ = std::make_shared<std::string>();
  std::shared_ptr<std::vector<std::string>> notes_ = std::make_shared<std::vector<std::string>>();
  std::string positional_name_, positional_help_;
  std::vector<std::string> positional_choices_;
  bool positional_required_ = false;
  std::vector<std::string>* positionals_ = nullptr;
};

} // namespace mha::app
