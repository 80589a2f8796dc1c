// The cursor that every JSON text is read by.

#include <mha/formats/json_node.hpp>

#include <catch2/catch.hpp>

using namespace mha;
using namespace mha::io;

namespace {

/// Every value is read, in the document's order: names and texts one after another.
void read_all(const JsonNode& node, std::string& seen) {
  if (node.is_object())
    node.each_member("x", [&](const JsonName& name, const JsonNode& value) {
      seen += fmt::format("{}@{} ", name.text, *name.place);
      read_all(value, seen);
    });
  else if (node.is_array())
    node.each_element("x", [&](const JsonNode& value) { read_all(value, seen); });
  else if (node.is_string())
    seen += node.text("x") + " ";
  else if (node.is_number())
    seen += fmt::format("{}={} ", node.number_text(), node.number("x"));
}

struct Read {
  std::string seen, refusal;
  std::size_t byte = 0;
};

/// What is read of a text, with nothing looked at before, and what is refused.
Read read(const std::string& text, JsonWords words = JsonWords::jsons) {
  Read result;
  JsonDocument document("x.json", text, words, 3);
  try {
    const JsonNode root = JsonNode::unread_root(document);
    read_all(root, result.seen);
    root.finish();
  } catch (const JsonError& error) {
    result.refusal = error.what(), result.byte = error.byte;
  }
  return result;
}

} // namespace

TEST_CASE("a text that is read as it is visited is refused at its first mistake", "[io]") {
  struct Case {
    std::string text, seen, refusal;
    std::size_t byte;
  };
  const Case cases[]{
      {R"({"a": [1.50, "b"], "\u0063": null})", R"(a@" 1.50=1.5 b c@" )", "", 0},
      {"\xef\xbb\xbf[1] x", "1=1 ", "line 1, column 5: more text after the end", 8},
      {"{\"a\": \"b\n\", \"c\": d}", "a@\" ", R"(line 1, column 9: a control character)", 9},
      {"{\"a\":\n tru}", "a@\" ", "line 2, column 2: a value expected", 8},
      {"[1, NaN]", "1=1 ", "line 1, column 5: a value expected", 5},
      {R"({"a" 1})", "", "line 1, column 6: ':' expected", 6},
      {"{a: 1}", "", "line 1, column 2: a name in quotes expected", 2},
      {R"({"a": 1)", R"(a@" 1=1 )", "line 1, column 8: the text ends; ',' or '}' expected", 8},
      {"[\"é\", 1 2]", "é 1=1 ", "line 1, column 9: ',' or ']' expected", 10},
      {"[1, [[[2]]]]", "1=1 ", "line 1, column 8: nested more than 3 deep", 8},
      {"[1, [[]], 1e999]", "1=1 ", "line 1, column 11: a number beyond float64", 11},
      {"", "", "line 1, column 1: the text ends; a value expected", 1},
  };
  for (const Case& one : cases) {
    INFO(one.text);
    const Read found = read(one.text);
    CHECK(found.seen == one.seen);
    CHECK(found.byte == one.byte);
    CHECK_THAT(found.refusal,
               Catch::StartsWith(one.refusal.empty() ? "" : "x.json: " + one.refusal));
    CHECK(found.refusal.empty() == one.refusal.empty());
  }
  CHECK(read("[1, NaN, -Infinity]", JsonWords::pythons).refusal.empty());
}
