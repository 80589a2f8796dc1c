#pragma once
// The command line's one thin layer over CLI11, which is compiled in cli.cpp alone. A command
// declares its options once, as plain data bound to its variables; parsing, help, man pages and
// shell completions all come from these declarations.

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

/// Wrong usage: the message gets a hint to the command's --help.
class UsageError : public Error {
public:
  using Error::Error;
};

/// What a shell should offer as an option's value.
enum class Completes : std::uint8_t { nothing, choices, files, stages };

/// One option, as it was declared.
struct Option {
  std::string name;       ///< "--stage"
  std::string letter;     ///< "-s", or ""
  std::string off;        ///< "--no-causal", or "": a flag that can be taken back
  std::string value_name; ///< "NAME[,NAME]"; "" for a flag
  std::string help;
  std::string group;                ///< the heading that it stands under in help
  bool rare = false;                ///< one of many that a page of help counts
  std::vector<std::string> choices; ///< the words that the value may be; empty: anything
  std::vector<std::string> offered; ///< the words that a shell offers, where they are not `choices`
  Completes completes = Completes::nothing;
  /// Spellings of earlier versions, each taken as these words, with a note, until 0.4.
  std::vector<std::pair<std::string, std::vector<std::string>>> former;
  /// Other spellings, "--minus-causal", and how its value begins then, "causal=".
  std::vector<std::pair<std::string, std::string>> families;
  bool chooses = true;  ///< decides which numbers a result has, or how they are written
  bool joins = false;   ///< given again, its values are joined with commas
  bool repeats = false; ///< given again, each of its values is set; else another value is an error
  std::function<void(const std::string&)> set; ///< a flag is set to "true" or "false"

  bool is_flag() const { return value_name.empty(); }
  // For declarations in one expression.
  Option& offers(Completes what) { return completes = what, *this; }
  Option& offers(std::vector<std::string> words) {
    return completes = Completes::choices, offered = std::move(words), *this;
  }
  /// An earlier spelling of it, and what stands for it now: the option with `value`, or, where that
  /// is "", with the value that follows.
  Option& formerly(std::string spelling, std::string value = {}) {
    former.push_back({std::move(spelling), {name}});
    if (!value.empty()) former.back().second.push_back(std::move(value));
    return *this;
  }
  const std::vector<std::string>& words() const { return offered.empty() ? choices : offered; }
};

/// What a command does once its options are parsed; returns the exit code.
using Run = std::function<int()>;

/// A line that a reader can copy, and what it does.
struct Example {
  std::string line; ///< without the program's name: "show layer.npz -s weights"
  std::string text;
};

/// The declarations of one command. Names are written "--stage,-s".
class Cli {
public:
  explicit Cli(std::string command) : command_(std::move(command)) {}

  /// The heading for the options declared from here on; `rare`: -h counts them.
  void group(std::string title, bool rare = false) {
    group_ = std::move(title), rare_ = rare, chooses_ = true;
  }
  /// The same for options that say where a layer or a text comes from, or how the program behaves.
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
  /// A comma list in one word; given again, it goes on.
  Option& list(std::string_view names, std::string value_name, std::vector<std::string>& target,
               std::string help);
  /// One of some words.
  Option& choice(std::string_view names, std::vector<std::string> choices, std::string& target,
                 std::string help);
  /// The option of that name, declared before.
  Option& option(std::string_view name);
  /// Anything else: `set` gets the text, and throws Error for what it cannot take.
  Option& add(Option option);

  /// What stands without an option: "SOURCE...". Without this declaration such words are refused.
  /// With `choices`, it is one of these words.
  void positionals(std::string name, std::string help, std::vector<std::string>& target,
                   bool required, std::vector<std::string> choices = {});
  /// What the command does, for its help: a few sentences.
  void about(std::string text) { about_ = std::move(text); }
  /// What is looked at when every option is set; throws UsageError for options that do not go
  /// together.
  void check(std::function<void()> text_style) { checks_.push_back(std::move(text_style)); }
  /// What is looked at when the command has run.
  void at_end(std::function<void()> check) { ends_.push_back(std::move(check)); }
  void end() const {
    for (const std::function<void()>& check : ends_) check();
  }
  /// Options that change nothing wherever `why` gives a reason: each of them is an error then,
  /// "--tokens: REASON".
  void unused(std::vector<std::string> names, std::function<std::string()> why) {
    unused_.push_back({std::move(names), std::move(why)});
  }
  /// The names of the options that parse() found on the line, in the order of their declaration.
  std::shared_ptr<const std::vector<std::string>> given() const { return given_; }
  /// What parse() found of the options that choose, "--by head" and a line feed each: runs with the
  /// same choices write the same of the same layers and texts.
  std::shared_ptr<const std::string> choices() const { return choices_; }
  /// The names of the options declared from number `first` on.
  std::vector<std::string> names_from(std::size_t first) const;
  void example(std::string line, std::string text) {
    examples_.push_back({std::move(line), std::move(text)});
  }

  /// Sets every bound variable. False if --help was asked for. Throws UsageError.
  bool parse(std::vector<std::string> arguments) const;
  /// What parse() has to say of former spellings, a sentence each.
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
