#pragma once
// The tokens of JSON, with the place of every mistake. What a document means is up to its reader.

#include <mha/system/characters.hpp>
#include <mha/system/error.hpp>
#include <mha/tensor/tensor.hpp>

#include <string>
#include <string_view>

namespace mha::io {

/// Lines and columns of places in a text, each after the one that was asked for before: the text is
/// counted once.
class JsonLines {
public:
  explicit JsonLines(std::string_view text);
  /// "line 3, column 14".
  std::string of(const char* place);

private:
  const char* at_;
  std::size_t line_ = 1, column_ = 1;
};

/// What is wrong with a JSON text, for a reader that says it in its own words.
class JsonError : public Error {
public:
  enum class Kind : std::uint8_t { grammar, number, depth }; ///< of a number beyond float64; …
  JsonError(const Message& message, Kind what, std::size_t at)
      : Error(message), kind(what), byte(at) {}

  Kind kind;
  std::size_t byte; ///< of the mistake, from 1
};

class JsonScanner {
public:
  /// `where` is the file's name, for messages.
  JsonScanner(std::string where, std::string_view text);

  /// Throws Error "FILE: line 3, column 14: WHY" for the current place, or for `at`.
  [[noreturn]] void refuse(const Message& why) const { refuse(why, at_); }
  [[noreturn]] void refuse(const Message& why, const char* at,
                           JsonError::Kind kind = JsonError::Kind::grammar) const;

  /// The next character that is no space ('\0' at the end), without taking it.
  char next() {
    while (at_ != end_ && (*at_ == ' ' || *at_ == '\n' || *at_ == '\t' || *at_ == '\r')) ++at_;
    return at_ == end_ ? '\0' : *at_;
  }
  /// Whether the next value is a number, and not a word such as -Infinity.
  bool at_number() {
    const char first = next();
    if (is_digit(first)) return true;
    return first == '-' && (end_ - at_ < 2 || at_[1] != 'I');
  }
  /// Takes the next character if it is `wanted`.
  bool accept(char wanted) {
    if (next() != wanted || at_ == end_) return false;
    ++at_;
    return true;
  }
  void expect(char wanted, std::string_view what);
  /// A quoted string, its escapes resolved.
  std::string string();
  /// The same without a copy where there are no escapes; else `decoded` holds it.
  std::string_view string(std::string& decoded);
  /// The same, which may be no UTF-8 where it has no escapes: for texts that are sought among
  /// checked ones.
  std::string_view unchecked_string(std::string& decoded);
  /// The first quote, backslash or control character from `at` on, or `end`.
  static const char* plain_until(const char* at, const char* end);
  /// A bare word: true, null, NaN …
  std::string_view word();
  /// A number in JSON's grammar; underflow is 0, overflow an error.
  double number();
  /// The text of the number at the current place, which number() would take.
  std::string_view number_text();
  /// A whole number of the given type; anything else is an error that names what it should have
  /// been.
  template <class Integer> Integer integer(std::string_view what);
  /// Nothing but space is left.
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
