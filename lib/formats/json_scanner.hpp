#pragma once
// Splits JSON into tokens, and reports mistakes with their places.

#include <mha/system/characters.hpp>
#include <mha/system/error.hpp>
#include <mha/tensor/tensor.hpp>

#include <memory>
#include <string>
#include <string_view>

namespace mha::io {

/// Lines and columns of places in a text. Places must be requested in increasing order, so that the
/// text is traversed once.
class JsonLines {
public:
  explicit JsonLines(std::string_view text);
  /// "line 3, column 14".
  std::string of(const char* place);

private:
  const char* at_;
  std::size_t line_ = 1, column_ = 1;
};

/// The part of a line around a place, as the file has it.
struct JsonLine {
  std::string before, after;
};

/// A mistake in a JSON text, for readers that report it with their own messages.
class JsonError : public Error {
public:
  enum class Kind : std::uint8_t { grammar, number, depth }; ///< number: beyond float64
  JsonError(const Message& message, Kind what, std::size_t at, std::shared_ptr<const JsonLine> line)
      : Error(message), kind(what), byte(at), around(std::move(line)) {}

  Kind kind;
  std::size_t byte; ///< of the mistake, from 1
  std::shared_ptr<const JsonLine> around;
};

class JsonScanner {
public:
  /// `where` is the file's name, for messages.
  JsonScanner(std::string where, std::string_view text);

  /// Throws Error "FILE: line 3, column 14: WHY" for the current place, or for `at`.
  [[noreturn]] void refuse(const Message& why) const { refuse(why, at_); }
  [[noreturn]] void refuse(const Message& why, const char* at,
                           JsonError::Kind kind = JsonError::Kind::grammar) const;
  /// Throws Error for text that cannot be there, with what is wrong with it where that is known:
  /// "EXPECTED; JSON has no comments".
  [[noreturn]] void refuse_unexpected(std::string_view expected, const char* at) const;

  /// Skips space and returns the next character ('\0' at the end) without consuming it.
  char next() {
    while (at_ != end_ && (*at_ == ' ' || *at_ == '\n' || *at_ == '\t' || *at_ == '\r')) ++at_;
    return at_ == end_ ? '\0' : *at_;
  }
  /// Whether the next value is a number, not a word such as -Infinity or -inf.
  bool at_number() {
    const char first = next();
    if (is_digit(first)) return true;
    return first == '-' && (end_ - at_ < 2 || !is_letter(at_[1]));
  }
  /// Consumes the next character if it is `wanted`.
  bool accept(char wanted) {
    if (next() != wanted || at_ == end_) return false;
    ++at_;
    return true;
  }
  void expect(char wanted, std::string_view what);
  /// A quoted string, its escapes resolved.
  std::string string();
  /// The same without a copy if there are no escapes; otherwise `decoded` holds it.
  std::string_view string(std::string& decoded);
  /// The same without a check of the UTF-8 if there are no escapes: for texts that are looked up
  /// among checked ones.
  std::string_view unchecked_string(std::string& decoded);
  /// The first quote, backslash or control character from `at` on, or `end`.
  static const char* plain_until(const char* at, const char* end);
  /// A bare word: true, null, NaN …
  std::string_view word();
  /// A number in JSON's grammar; underflow is 0, overflow an error.
  double number();
  /// The text of the number at the current place, without consuming it.
  std::string_view number_text();
  /// A whole number of the given type; anything else throws Error "WHAT expected".
  template <class Integer> Integer integer(std::string_view what);
  /// Throws Error unless only space is left.
  void finish();

  const char* place() const { return at_; }
  void go_to(const char* place) { at_ = place; }
  const std::string& where() const { return where_; }

private:
  void escape(std::string& text);
  std::uint32_t hex4();

  std::string where_;
  const char* start_;
  const char* at_;
  const char* end_;
};

} // namespace mha::io
