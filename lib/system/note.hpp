#pragma once
// Notes about an input: a remark, or a doubt about the results.

#include <mha/system/message.hpp>

#include <cstdint>
#include <string>
#include <utility>

namespace mha {

/// A warning casts doubt on the numbers, because something may not be what the user meant. A note
/// reports what was done, with nothing in doubt. `--strict` makes warnings errors.
enum class Severity : std::uint8_t { note, warning };

/// A note or a warning.
struct Note {
  ///@{
  /// The text in a program's words, its severity, and the message, which has the text for other
  /// readers.
  std::string text;
  Severity severity = Severity::note;
  Message message;

  Note(Message content, Severity how = Severity::note)
      : text(content.in_words(Wording::program)), severity(how), message(std::move(content)) {}
  Note(std::string content, Severity how = Severity::note) : Note(Message(content), how) {}
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
