#pragma once
// Notes about an input: a remark, or a doubt about the results.

#include <mha/system/message.hpp>

#include <cstdint>
#include <string>
#include <utility>

namespace mha {

/// A warning is a doubt about the numbers: something may not be what was meant. A note says what
/// was done, and nothing is in doubt. `--strict` makes warnings errors.
enum class Severity : std::uint8_t { note, warning };

/// One of them.
struct Note {
  ///@{
  /// What is said in a program's words, how much it matters, and what can be put into others.
  std::string text;
  Severity severity = Severity::note;
  Message message;

  Note(Message said, Severity how = Severity::note)
      : text(said.in_words(Wording::program)), severity(how), message(std::move(said)) {}
  Note(std::string said, Severity how = Severity::note) : Note(Message(said), how) {}
  operator const std::string&() const { return text; }
  ///@}
  /// Whether the numbers are in doubt.
  bool is_warning() const { return severity == Severity::warning; }
  /// The same text and severity.
  friend bool operator==(const Note&, const Note&) = default;
};

/// A note that is a warning.
inline Note warning(Message text) {
  return {std::move(text), Severity::warning};
}

} // namespace mha
