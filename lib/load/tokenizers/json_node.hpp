#pragma once
// A place in a JSON text. A vocabulary of half a million entries is read where it stands: no tree
// of it is built.

#include <mha/formats/json_scanner.hpp>
#include <mha/system/error.hpp>

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace mha::tokenizers {

/// A JSON text that nodes point into. It must outlive them.
class JsonText {
public:
  /// `where` is the file's name, for messages.
  JsonText(std::string where, std::string_view text)
      : scanner(std::move(where), text), end(text.data() + text.size()) {}

  io::JsonScanner scanner;
  const char* end;
};

class JsonNode {
public:
  /// The value that the text is. Throws Error for text that is no JSON, or nested too deep.
  static JsonNode root(JsonText& text);

  bool is_null() const { return peek() == 'n'; }
  bool is_object() const { return peek() == '{'; }
  bool is_array() const { return peek() == '['; }
  bool is_string() const { return peek() == '"'; }
  bool is_number() const;

  /// The members of an object, or the elements of an array, one after another; `what` names it
  /// for the message where it is something else: "merges must be a list".
  void each_member(std::string_view what,
                   const std::function<void(std::string key, JsonNode value)>& visit) const;
  void each_element(std::string_view what, const std::function<void(JsonNode)>& visit) const;
  /// All members of an object; a name that is there twice is refused.
  std::vector<std::pair<std::string, JsonNode>> members(std::string_view what) const;
  std::vector<JsonNode> elements(std::string_view what) const;

  std::string text(std::string_view what) const;
  bool boolean(std::string_view what) const;
  double number(std::string_view what) const;
  /// A whole number of 0 to `most`.
  int integer(std::string_view what, int most) const;

  /// Throws Error "FILE: line 3, column 14: WHY".
  [[noreturn]] void refuse(std::string_view why) const;

private:
  JsonNode(JsonText& text, const char* at) : text_(&text), at_(at) {}
  char peek() const;
  static void skip(JsonText& text, int depth);

  JsonText* text_;
  const char* at_;
};

} // namespace mha::tokenizers
