#pragma once
// A place in a JSON text. A vocabulary of half a million entries is read where it stands: no tree
// of it is built.

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

/// Which words are values: JSON's null, true and false, or also what Python writes for numbers that
/// are none or infinite. Configs are written by Python, and hold such numbers of parts that
/// nothing here reads; tokenizer.json is not.
enum class JsonWords : std::uint8_t { jsons, pythons };

/// A JSON text that nodes point into. It must outlive them.
class JsonDocument {
public:
  /// `where` is the file's name, for messages.
  JsonDocument(std::string where, std::string_view text, JsonWords taken = JsonWords::jsons,
               std::size_t most_nested = deepest)
      : scanner(std::move(where), text),
        end(text.data() + text.size()),
        words(taken),
        most_depth(most_nested) {}

  static constexpr std::size_t deepest = 64;
  JsonScanner scanner;
  const char* end;
  JsonWords words;
  std::size_t most_depth; ///< of objects and lists in each other; at most `deepest`
  /// A large value: where it ends, and how many members or elements it has.
  struct Large {
    const char* end;
    std::size_t count;
  };
  /// By where they begin: they are passed once.
  std::map<const char*, Large> large;
  /// The value that was read last: it need not be passed again.
  const char *read = nullptr, *behind_read = nullptr;
  std::size_t depth = 0; ///< how many objects and lists are being visited
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
  /// The value that the text is. Throws Error for text that is no JSON, or nested too deep.
  static JsonNode root(JsonDocument& text);
  /// The same, nothing of which has been looked at: mistakes are found as values are read, in their
  /// order, and the last by finish().
  static JsonNode unread_root(JsonDocument& text);
  /// Throws Error where more than space follows this value.
  void finish() const;

  /// Where it begins.
  const char* place() const { return at_; }
  /// The file's name.
  const std::string& file() const { return text_->scanner.where(); }
  bool is_null() const { return peek() == 'n'; }
  bool is_object() const { return peek() == '{'; }
  bool is_array() const { return peek() == '['; }
  bool is_string() const { return peek() == '"'; }
  bool is_number() const;

  /// The members of an object, or the elements of an array, one after another; `what` names it
  /// for the message where it is something else: "merges must be a list".
  template <class Visit> void each_member(std::string_view what, const Visit& visit) const {
    require_object(what);
    std::string decoded;
    for (bool more = enter('}'); more; more = next_value('}')) {
      const JsonName name = read_name(decoded);
      const JsonNode value = here();
      visit(name, value);
      value.pass();
    }
    close();
  }
  template <class Visit> void each_element(std::string_view what, const Visit& visit) const {
    require_array(what);
    for (bool more = enter(']'); more; more = next_value(']')) {
      const JsonNode value = here();
      visit(value);
      value.pass();
    }
    close();
  }
  /// All members of an object; a name that is there twice is refused.
  std::vector<std::pair<std::string, JsonNode>> members(std::string_view what) const;
  std::vector<JsonNode> elements(std::string_view what) const;
  /// What the members or elements of a large value need room for; zeros of a small one.
  struct ValueSize {
    std::size_t count = 0, bytes = 0;
  };
  ValueSize extent() const;

  std::string text(std::string_view what) const;
  /// The same without a copy where the text has no escapes; else `decoded` holds it.
  std::string_view text(std::string_view what, std::string& decoded) const;
  /// The same, whose UTF-8 is not checked where it has no escapes.
  std::string_view unchecked_text(std::string_view what, std::string& decoded) const;
  bool boolean(std::string_view what) const;
  double number(std::string_view what) const;
  /// A number as it is written.
  std::string_view number_text() const;
  /// What is no object, list, text or number: null, true, NaN ….
  std::string_view word() const;
  /// A whole number of 0 to `most`.
  int integer(std::string_view what, int most) const;

  /// What `read` makes of the scanner, which stands at this value and goes to its end.
  template <class Read> auto read(const Read& read) const {
    text_->scanner.go_to(at_);
    auto value = read(text_->scanner);
    leave();
    return value;
  }

  /// Throws Error "FILE: line 3, column 14: WHY".
  [[noreturn]] void refuse(const Message& why) const;
  /// Throws Error "FILE: line 3, column 14: WHAT expected", unless it is.
  void require(bool is, std::string_view what) const;

private:
  JsonNode(JsonDocument& text, const char* at) : text_(&text), at_(at) {}
  char peek() const { return at_ == text_->end ? '\0' : *at_; }
  void require_object(std::string_view what) const;
  void require_array(std::string_view what) const;
  void require_text(std::string_view what) const;
  /// Into an object or a list; whether anything is in it.
  bool enter(char last) const {
    ++text_->depth;
    text_->scanner.go_to(at_ + 1);
    return !text_->scanner.accept(last);
  }
  void close() const {
    --text_->depth;
    leave();
  }
  /// Past a comma; whether there is one.
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
  /// Behind this value, wherever the scanner is.
  void pass() const {
    if (text_->read == at_)
      text_->scanner.go_to(text_->behind_read);
    else
      pass_over();
  }
  void pass_over() const;
  /// This value has been read as far as the scanner's place.
  void leave() const { text_->read = at_, text_->behind_read = text_->scanner.place(); }

  JsonDocument* text_;
  const char* at_;
};

} // namespace mha::io
