#include "cli_words.hpp"

#include <mha/system/words.hpp>

#include <algorithm>
#include <fmt/format.h>

namespace mha::app {

namespace {

/// The option with a value that a word such as "--stage" or "-s" names, or nullptr.
const Option* option_with_value(const std::deque<Option>& options, std::string_view word) {
  const auto found = std::find_if(options.begin(), options.end(), [&](const Option& option) {
    return !option.is_flag() && !word.empty() && (option.name == word || option.letter == word);
  });
  return found == options.end() ? nullptr : &*found;
}

// The parser would split a positional "[a,b]" into two. This byte, with which no argument begins,
// is put before it to prevent that.
constexpr char guard = '\x1f';

} // namespace

void refuse_equals_sign(const std::vector<std::string>& arguments,
                        const std::deque<Option>& options) {
  for (std::size_t i = 0; i < arguments.size() && arguments[i] != "--"; ++i) {
    const std::string& word = arguments[i];
    const std::string letter = word.substr(0, 2);
    if (option_with_value(options, word))
      ++i; // its value
    else if (word.size() > 2 && word[2] == '=' && letter[1] != '-' &&
             option_with_value(options, letter))
      throw UsageError(fmt::format("'{}': the value of {} follows without '=': {} {}", word, letter,
                                   letter, word.substr(3)));
  }
}

std::vector<std::string> with_empty_values(std::vector<std::string> arguments,
                                           const std::deque<Option>& options) {
  for (std::size_t i = 0; i < arguments.size() && arguments[i] != "--"; ++i) {
    std::string& word = arguments[i];
    if (word.ends_with('=') && word.find('=') + 1 == word.size() && word.starts_with("--")) {
      if (option_with_value(options, std::string_view(word).substr(0, word.size() - 1)))
        word += empty_value;
    } else if (option_with_value(options, word) && i + 1 < arguments.size()) {
      ++i; // its value
      if (arguments[i].empty()) arguments[i] = empty_value;
    }
  }
  return arguments;
}

std::vector<std::string> guarded(std::vector<std::string> arguments) {
  for (std::string& word : arguments)
    if (word.starts_with('[') && word.ends_with(']')) word.insert(word.begin(), guard);
  return arguments;
}

std::vector<std::string> unguarded(std::vector<std::string> list) {
  for (std::string& word : list)
    if (word.starts_with(guard)) word.erase(word.begin());
  return list;
}

void take_former(std::vector<std::string>& arguments, const std::deque<Option>& options,
                 std::vector<std::string>& notes) {
  for (std::size_t i = 0; i < arguments.size() && arguments[i] != "--"; ++i) {
    const std::string word = arguments[i].substr(0, arguments[i].find('='));
    for (const Option& option : options)
      for (const auto& [spelling, now] : option.former) {
        if (word != spelling) continue;
        const std::string rest = arguments[i].substr(word.size());
        // A flag that became a value: "--all=false" had no effect.
        const bool was_flag = now.size() > 1;
        if (was_flag && rest == "=false") {
          arguments.erase(arguments.begin() + static_cast<std::ptrdiff_t>(i--));
          break;
        }
        if (was_flag && !rest.empty() && rest != "=true")
          throw UsageError(fmt::format("{} is '{}': it takes no value", spelling, rest.substr(1)));
        notes.push_back(
            fmt::format("{} has been renamed to `{}`; the old spelling stops working in 0.4",
                        spelling, joined_texts(now, " ")));
        arguments[i] = was_flag ? now[0] : now[0] + rest;
        arguments.insert(arguments.begin() + static_cast<std::ptrdiff_t>(i) + 1, now.begin() + 1,
                         now.end());
      }
    if (option_with_value(options, arguments[i])) ++i; // its value
  }
}

void take_families(std::vector<std::string>& arguments, const std::deque<Option>& options) {
  for (std::size_t i = 0; i < arguments.size() && arguments[i] != "--"; ++i) {
    const std::size_t equals = arguments[i].find('=');
    const std::string word = arguments[i].substr(0, equals);
    for (const Option& option : options)
      for (const auto& [spelling, begins] : option.families) {
        if (word != spelling) continue;
        if (equals != std::string::npos) {
          arguments[i] = option.name + "=" + begins + arguments[i].substr(equals + 1);
        } else {
          if (i + 1 == arguments.size()) throw UsageError(word + " needs a value");
          if (arguments[i + 1].starts_with("--"))
            throw UsageError(
                fmt::format("{} needs a value, but {} is an option", word, arguments[i + 1]));
          arguments[i] = option.name, arguments[i + 1].insert(0, begins);
        }
      }
    if (option_with_value(options, arguments[i])) ++i; // its value
  }
}

} // namespace mha::app
