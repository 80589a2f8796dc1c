#pragma once
// A small JSON document that a person wrote: every value knows its line, for messages.

#include <mha/files/contents.hpp>

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace mha {

struct JsonMember;

struct JsonTree {
  enum class Kind : std::uint8_t { null, boolean, number, text, list, object };

  Kind kind = Kind::null;
  std::string text;  ///< of text; a number's digits; "true" or "false"
  double number = 0; ///< of a number
  std::vector<JsonTree> elements;
  std::vector<JsonMember> members; ///< in the document's order, none twice
  std::string where;               ///< "naming.json: line 5, column 12"

  bool is_object() const { return kind == Kind::object; }
  bool is_list() const { return kind == Kind::list; }
  bool is_text() const { return kind == Kind::text; }
  bool is_number() const { return kind == Kind::number; }
  bool is_boolean() const { return kind == Kind::boolean; }
  bool is_null() const { return kind == Kind::null; }
  bool is_true() const { return is_boolean() && text == "true"; }
  /// The value of a member, or nullptr.
  const JsonTree* find(std::string_view name) const;
  /// Throws Error "naming.json: line 5, column 12: WHY".
  [[noreturn]] void refuse(const Message& why) const;
  /// The text, else Error "WHERE: WHAT must be text in quotes"; the others likewise.
  const std::string& as_text(std::string_view what) const;
  double as_number(std::string_view what) const;
  bool as_boolean(std::string_view what) const;
};

/// One value of an object.
struct JsonMember {
  std::string name;
  JsonTree value;
};

/// The document of at most 1 MiB. Throws Error with line and column for invalid JSON, for a name
/// that is twice in an object, and for nesting deeper than 32. Without `with_lines` values only
/// know the document's name.
JsonTree read_json_tree(const io::Bytes& bytes, bool with_lines = true);

} // namespace mha
