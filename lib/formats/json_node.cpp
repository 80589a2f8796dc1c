#include <mha/formats/json_node.hpp>

#include <mha/files/text.hpp>
#include <mha/formats/json_array.hpp>
#include <mha/system/characters.hpp>

#include <array>
#include <set>

namespace mha::io {

namespace {

/// Skips a string. Its escapes are checked only when it is read.
void skip_string(JsonDocument& text) {
  const auto next = [&](const char* at) { return JsonScanner::plain_until(at, text.end); };
  const char* at = next(text.scanner.place() + 1);
  while (at != text.end && *at != '"') at = next(at + (*at == '\\' && text.end - at > 1 ? 2 : 1));
  if (at == text.end) text.scanner.refuse("a string that never ends");
  text.scanner.go_to(at + 1);
}

void skip_word(JsonDocument& text) {
  const char* at = text.scanner.place();
  const std::string_view word = text.scanner.word();
  const bool number = text.words == JsonWords::typed     ? typed_number_word(word).has_value()
                      : text.words == JsonWords::pythons ? number_word(word).has_value()
                                                         : false;
  if (word != "null" && word != "true" && word != "false" && !number)
    text.scanner.refuse_unexpected("a value expected", at);
}

/// Skips the value at the scanner's place, and records the ends of large values.
class ValueSkipper {
public:
  explicit ValueSkipper(JsonDocument& text) : text_(text), scanner_(text.scanner) {}

  void skip() {
    do
      while (enters_value()) {
      }
    while (!leaves_value());
  }

private:
  struct OpenContainer {
    const char* begin;
    char last;
    std::size_t commas;
  };

  /// Skips a value without members, or enters one with members and returns true.
  bool enters_value() {
    if (depth_ > text_.most_depth) text_.refuse_depth();
    const char first = scanner_.next();
    if (first == '{' || first == '[') return enters(first);
    if (first == '"')
      skip_string(text_);
    else if (scanner_.at_number())
      scanner_.number();
    else
      skip_word(text_);
    return false;
  }

  bool enters(char first) {
    const char* begin = scanner_.place();
    if (const auto known = text_.large.find(begin); known != text_.large.end()) {
      scanner_.go_to(known->second.end);
      return false;
    }
    const char last = first == '{' ? '}' : ']';
    scanner_.accept(first);
    if (scanner_.accept(last)) return false;
    open_[depth_++] = {begin, last, 0};
    if (last == '}') name();
    return true;
  }

  void name() {
    if (scanner_.next() != '"')
      scanner_.refuse_unexpected("a name in quotes expected", scanner_.place());
    skip_string(text_);
    scanner_.expect(':', "':'");
  }

  /// After a value: skips a comma and a name, or the closing brackets. Whether all containers
  /// ended.
  bool leaves_value() {
    constexpr std::ptrdiff_t large = 64 << 10;
    while (depth_ > 0) {
      OpenContainer& innermost = open_[depth_ - 1];
      if (scanner_.accept(',')) {
        ++innermost.commas;
        if (innermost.last == '}') name();
        return false;
      }
      scanner_.expect(innermost.last, innermost.last == '}' ? "',' or '}'" : "',' or ']'");
      if (scanner_.place() - innermost.begin >= large)
        text_.large.emplace(innermost.begin,
                            JsonDocument::Large{scanner_.place(), innermost.commas + 1});
      --depth_;
    }
    return true;
  }

  JsonDocument& text_;
  JsonScanner& scanner_;
  std::array<OpenContainer, JsonDocument::deepest + 1> open_;
  std::size_t depth_ = 0;
};

} // namespace

void JsonDocument::refuse_depth() const {
  scanner.refuse(fmt::format("nested more than {} deep", most_depth), scanner.place(),
                 JsonError::Kind::depth);
}

JsonNode JsonNode::unread_root(JsonDocument& text) {
  text.scanner.next();
  return {text, text.scanner.place()};
}

JsonNode JsonNode::root(JsonDocument& text) {
  const JsonNode node = unread_root(text);
  node.finish();
  return node;
}

void JsonNode::finish() const {
  skip();
  text_->scanner.finish();
}

bool JsonNode::is_number() const {
  text_->scanner.go_to(at_);
  return text_->scanner.at_number();
}

void JsonNode::refuse(const Message& why) const {
  text_->scanner.refuse(why, at_);
}

void JsonNode::require(bool is, std::string_view what) const {
  if (!is) refuse(fmt::format("{}{} expected", at_ == text_->end ? "the text ends; " : "", what));
}

void JsonNode::require_object(std::string_view what) const {
  if (!is_object()) refuse(fmt::format("{} must be an object", what));
}

void JsonNode::require_array(std::string_view what) const {
  if (!is_array()) refuse(fmt::format("{} must be a list", what));
}

void JsonNode::require_text(std::string_view what) const {
  if (!is_string()) refuse(fmt::format("{} must be text in quotes", what));
}

void JsonNode::skip_value() const {
  text_->scanner.go_to(at_);
  ValueSkipper(*text_).skip();
}

JsonName JsonNode::read_name(std::string& decoded) const {
  if (text_->scanner.next() != '"')
    text_->scanner.refuse_unexpected("a name in quotes expected", text_->scanner.place());
  const char* const place = text_->scanner.place();
  const std::string_view name = text_->scanner.string(decoded);
  text_->scanner.expect(':', "':'");
  return {name, place};
}

std::vector<std::pair<std::string, JsonNode>> JsonNode::members(std::string_view what) const {
  std::vector<std::pair<std::string, JsonNode>> list;
  std::set<std::string, std::less<>> keys;
  each_member(what, [&](std::string_view key, const JsonNode& value) {
    if (!keys.emplace(key).second)
      value.refuse(fmt::format("'{}' appears twice in this object", shown(key)));
    list.emplace_back(key, value);
  });
  return list;
}

std::vector<JsonNode> JsonNode::elements(std::string_view what) const {
  std::vector<JsonNode> list;
  each_element(what, [&](const JsonNode& value) { list.push_back(value); });
  return list;
}

JsonNode::ValueSize JsonNode::extent() const {
  const auto known = text_->large.find(at_);
  if (known == text_->large.end()) return {};
  return {known->second.count, static_cast<std::size_t>(known->second.end - at_)};
}

std::string JsonNode::text(std::string_view what) const {
  std::string decoded;
  return std::string(text(what, decoded));
}

std::string_view JsonNode::text(std::string_view what, std::string& decoded) const {
  require_text(what);
  return read([&](JsonScanner& scanner) { return scanner.string(decoded); });
}

std::string_view JsonNode::unchecked_text(std::string_view what, std::string& decoded) const {
  require_text(what);
  return read([&](JsonScanner& scanner) { return scanner.unchecked_string(decoded); });
}

std::string_view JsonNode::word() const {
  text_->scanner.go_to(at_);
  return text_->scanner.word();
}

bool JsonNode::boolean(std::string_view what) const {
  const std::string_view text = word();
  if (text != "true" && text != "false") refuse(fmt::format("{} must be true or false", what));
  return text == "true";
}

double JsonNode::number(std::string_view what) const {
  if (!is_number()) refuse(fmt::format("{} must be a number", what));
  return read([](JsonScanner& scanner) { return scanner.number(); });
}

std::string_view JsonNode::number_text() const {
  text_->scanner.go_to(at_);
  return text_->scanner.number_text();
}

int JsonNode::integer(std::string_view what, int most) const {
  const double value = number(what);
  if (!(value >= 0 && value <= most) || value != static_cast<double>(static_cast<int>(value)))
    refuse(fmt::format("{} must be a whole number from 0 to {}", what, most));
  return static_cast<int>(value);
}

} // namespace mha::io
