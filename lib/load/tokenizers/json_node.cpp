#include <mha/load/tokenizers/json_node.hpp>

#include <mha/files/text.hpp>

#include <set>

namespace mha::tokenizers {

namespace {

constexpr int most_depth = 64;

/// Past a string, whose escapes are looked at only when somebody reads it.
void skip_string(JsonText& text) {
  const char* at = text.scanner.place() + 1;
  while (at != text.end && *at != '"') at += *at == '\\' && text.end - at > 1 ? 2 : 1;
  if (at == text.end) text.scanner.refuse("a string that never ends");
  text.scanner.go_to(at + 1);
}

void skip_word(JsonText& text) {
  const char* at = text.scanner.place();
  const std::string_view word = text.scanner.word();
  if (word != "null" && word != "true" && word != "false")
    text.scanner.refuse(at == text.end ? "the text ends; a value expected" : "a value expected",
                        at);
}

} // namespace

void JsonNode::skip(JsonText& text, int depth) {
  io::JsonScanner& scanner = text.scanner;
  if (depth > most_depth) scanner.refuse(fmt::format("nested more than {} deep", most_depth));
  const char first = scanner.next();
  if (first == '"') {
    skip_string(text);
  } else if (first == '{' || first == '[') {
    const char last = first == '{' ? '}' : ']';
    scanner.accept(first);
    if (scanner.accept(last)) return;
    do {
      if (first == '{') {
        if (scanner.next() != '"') scanner.refuse("a name in quotes expected");
        skip_string(text);
        scanner.expect(':', "':'");
      }
      skip(text, depth + 1);
    } while (scanner.accept(','));
    scanner.expect(last, first == '{' ? "',' or '}'" : "',' or ']'");
  } else if (scanner.at_number()) {
    scanner.number();
  } else {
    skip_word(text);
  }
}

JsonNode JsonNode::root(JsonText& text) {
  text.scanner.next();
  const JsonNode node(text, text.scanner.place());
  skip(text, 0);
  text.scanner.finish();
  return node;
}

char JsonNode::peek() const {
  return *at_; // a node stands before a value, never at the end
}

bool JsonNode::is_number() const {
  return peek() == '-' || (peek() >= '0' && peek() <= '9');
}

void JsonNode::refuse(std::string_view why) const {
  text_->scanner.refuse(why, at_);
}

void JsonNode::each_member(std::string_view what,
                           const std::function<void(std::string, JsonNode)>& visit) const {
  if (!is_object()) refuse(fmt::format("{} must be an object", what));
  io::JsonScanner& scanner = text_->scanner;
  scanner.go_to(at_ + 1);
  if (scanner.accept('}')) return;
  do {
    std::string key = scanner.string();
    scanner.expect(':', "':'");
    scanner.next();
    const JsonNode value(*text_, scanner.place());
    skip(*text_, 0);
    const char* after = scanner.place();
    visit(std::move(key), value);
    scanner.go_to(after);
  } while (scanner.accept(','));
}

void JsonNode::each_element(std::string_view what,
                            const std::function<void(JsonNode)>& visit) const {
  if (!is_array()) refuse(fmt::format("{} must be a list", what));
  io::JsonScanner& scanner = text_->scanner;
  scanner.go_to(at_ + 1);
  if (scanner.accept(']')) return;
  do {
    scanner.next();
    const JsonNode value(*text_, scanner.place());
    skip(*text_, 0);
    const char* after = scanner.place();
    visit(value);
    scanner.go_to(after);
  } while (scanner.accept(','));
}

std::vector<std::pair<std::string, JsonNode>> JsonNode::members(std::string_view what) const {
  std::vector<std::pair<std::string, JsonNode>> list;
  std::set<std::string, std::less<>> keys;
  each_member(what, [&](std::string key, JsonNode value) {
    if (!keys.insert(key).second)
      value.refuse(fmt::format("'{}' is twice in this object", io::shown(key)));
    list.emplace_back(std::move(key), value);
  });
  return list;
}

std::vector<JsonNode> JsonNode::elements(std::string_view what) const {
  std::vector<JsonNode> list;
  each_element(what, [&](JsonNode value) { list.push_back(value); });
  return list;
}

std::string JsonNode::text(std::string_view what) const {
  if (!is_string()) refuse(fmt::format("{} must be text in quotes", what));
  text_->scanner.go_to(at_);
  return text_->scanner.string();
}

bool JsonNode::boolean(std::string_view what) const {
  text_->scanner.go_to(at_);
  const std::string_view word = text_->scanner.word();
  if (word != "true" && word != "false") refuse(fmt::format("{} must be true or false", what));
  return word == "true";
}

double JsonNode::number(std::string_view what) const {
  if (!is_number()) refuse(fmt::format("{} must be a number", what));
  text_->scanner.go_to(at_);
  return text_->scanner.number();
}

int JsonNode::integer(std::string_view what, int most) const {
  const double value = number(what);
  if (!(value >= 0 && value <= most) || value != static_cast<double>(static_cast<int>(value)))
    refuse(fmt::format("{} must be a whole number from 0 to {}", what, most));
  return static_cast<int>(value);
}

} // namespace mha::tokenizers
