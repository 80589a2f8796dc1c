#pragma once
// Values in a JSON text, read in place: for a vocabulary of half a million entries no tree is
// built.

#include <mha/formats/json_scanner.hpp>
#include <mha/system/error.hpp>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace mha::io {

/// Which words are values: only JSON's null, true and false, or also Python's NaN and Infinity, or
/// these in any spelling ("-inf"). Configs are written by Python and may have such numbers in parts
/// that are not read here; tokenizer.json may not; layers are typed by people.
enum class JsonWords : std::uint8_t { jsons, pythons, typed };

/// A JSON text that nodes point into. It must outlive them.
class JsonDocument {
public:
  /// `where` is the file's name, for messages.
  JsonDocument(std::string where, std::string_view text, JsonWords accepted = JsonWords::jsons,
               std::size_t most_nested = deepest)
      : scanner(std::move(where), text),
        end(text.data() + text.size()),
        words(accepted),
        most_depth(most_nested) {}

  static constexpr std::size_t deepest = 64;
  JsonScanner scanner;
  const char* end;
  JsonWords words;
  std::size_t most_depth; ///< of nested objects and lists; at most `deepest`
  /// The end of a large value, and the number of its members or elements.
  struct Large {
    const char* end;
    std::size_t count;
  };
  /// Large values by their beginnings, so that each is skipped only once.
  std::map<const char*, Large> large;
  /// The value that was read last and its end, so that it need not be skipped again.
  const char *read = nullptr, *end_of_read = nullptr;
  std::size_t depth = 0; ///< of the objects and lists that are being visited
  /// Throws Error for a value that is nested too deep.
  [[noreturn]] void refuse_depth() const;
};

/// The name of a member.
struct JsonName {
  std::string_view text;
  const char* place;
  operator std::string_view() const { return text; }
};

class JsonNode {
public:
  /// The value of the whole text. Throws Error for invalid JSON, or if it is nested too deep.
  static JsonNode root(JsonDocument& text);
  /// The same without a check in advance: mistakes are found when values are read, and after the
  /// last value by finish().
  static JsonNode unread_root(JsonDocument& text);
  /// Throws Error if anything but space follows this value.
  void finish() const;

  /// The beginning of the value.
  const char* place() const { return at_; }
  /// The file's name.
  const std::string& file() const { return text_->scanner.where(); }
  bool is_null() const { return peek() == 'n'; }
  bool is_object() const { return peek() == '{'; }
  bool is_array() const { return peek() == '['; }
  bool is_string() const { return peek() == '"'; }
  bool is_number() const;

  /// The members of an object, or the elements of an array, one after another; `what` names it
  /// for the message if it is something else: "merges must be a list".
  template <class Visit> void each_member(std::string_view what, const Visit& visit) const {
    require_object(what);
    std::string decoded;
    for (bool more = enter('}'); more; more = next_value('}')) {
      const JsonName name = read_name(decoded);
      const JsonNode value = here();
      visit(name, value);
      value.skip();
    }
    close();
  }
  template <class Visit> void each_element(std::string_view what, const Visit& visit) const {
    require_array(what);
    for (bool more = enter(']'); more; more = next_value(']')) {
      const JsonNode value = here();
      visit(value);
      value.skip();
    }
    close();
  }
  /// All members of an object; throws Error for a name that appears twice.
  std::vector<std::pair<std::string, JsonNode>> members(std::string_view what) const;
  std::vector<JsonNode> elements(std::string_view what) const;
  /// The number of members or elements of a large value, and its bytes; zeros for a small one.
  struct ValueSize {
    std::size_t count = 0, bytes = 0;
  };
  ValueSize extent() const;

  std::string text(std::string_view what) const;
  /// The same without a copy if the text has no escapes; otherwise `decoded` holds it.
  std::string_view text(std::string_view what, std::string& decoded) const;
  /// The same without a check of the UTF-8 if the text has no escapes.
  std::string_view unchecked_text(std::string_view what, std::string& decoded) const;
  bool boolean(std::string_view what) const;
  double number(std::string_view what) const;
  /// The text of a number.
  std::string_view number_text() const;
  /// A value other than an object, list, text or number: null, true, NaN ….
  std::string_view word() const;
  /// A whole number from 0 to `most`.
  int integer(std::string_view what, int most) const;

  /// Calls `read` with the scanner at this value and returns the result; `read` must move it to the
  /// value's end.
  template <class Read> auto read(const Read& read) const {
    text_->scanner.go_to(at_);
    auto value = read(text_->scanner);
    leave();
    return value;
  }

  /// Throws Error "FILE: line 3, column 14: WHY".
  [[noreturn]] void refuse(const Message& why) const;
  /// Throws Error "FILE: line 3, column 14: WHAT expected" unless `is` is true.
  void require(bool is, std::string_view what) const;

private:
  JsonNode(JsonDocument& text, const char* at) : text_(&text), at_(at) {}
  char peek() const { return at_ == text_->end ? '\0' : *at_; }
  void require_object(std::string_view what) const;
  void require_array(std::string_view what) const;
  void require_text(std::string_view what) const;
  /// Enters an object or a list; false if it is empty.
  bool enter(char last) const {
    ++text_->depth;
    text_->scanner.go_to(at_ + 1);
    return !text_->scanner.accept(last);
  }
  void close() const {
    --text_->depth;
    leave();
  }
  /// Skips a comma; false if there is none.
  bool next_value(char last) const {
    if (text_->scanner.accept(',')) return true;
    if (!text_->scanner.accept(last))
      text_->scanner.expect(last, last == '}' ? "',' or '}'" : "',' or ']'");
    return false;
  }
  JsonName read_name(std::string& decoded) const;
  /// The value at the scanner's place.
  JsonNode here() const {
    if (text_->depth > text_->most_depth) text_->refuse_depth();
    text_->scanner.next();
    return {*text_, text_->scanner.place()};
  }
  /// Moves the scanner, from any place, to the end of this value.
  void skip() const {
    if (text_->read == at_)
      text_->scanner.go_to(text_->end_of_read);
    else
      skip_value();
  }
  void skip_value() const;
  /// Records that this value has been read up to the scanner's place.
  void leave() const { text_->read = at_, text_->end_of_read = text_->scanner.place(); }

  JsonDocument* text_;
  const char* at_;
};

} // namespace mha::io
