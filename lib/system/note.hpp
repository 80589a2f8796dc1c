#pragma once
// Notes about an input: a remark, or a doubt about the results.

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

namespace mha {

/// A warning is a doubt about the numbers: something may not be what was meant. A note says what
/// was done, and nothing is in doubt. `--strict` makes warnings errors.
enum class Severity : std::uint8_t { note, warning };

/// One of them.
struct Note {
  ///@{
  /// What is said, and how much it matters.
  std::string text;
  Severity severity = Severity::note;

  Note(std::string said, Severity how = Severity::note) : text(std::move(said)), severity(how) {}
  operator const std::string&() const { return text; }
  ///@}
  /// Whether the numbers are in doubt.
  bool is_warning() const { return severity == Severity::warning; }
  /// The same text and severity.
  friend bool operator==(const Note&, const Note&) = default;
};

/// A note that is a warning.
inline Note warning(std::string text) {
  return {std::move(text), Severity::warning};
}

} // namespace mha
