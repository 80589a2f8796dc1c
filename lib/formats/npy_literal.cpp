#include <mha/formats/npy.hpp>

#include <mha/files/text.hpp>
#include <mha/system/parse.hpp>

namespace mha::io {

namespace {

class LiteralParser {
public:
  LiteralParser(const std::string& where, std::string_view text) : where_(where), text_(text) {}

  NpyLiteral parse() {
    NpyLiteral literal;
    bool descr = false, fortran = false, shape = false;
    expect('{');
    while (!accept('}')) {
      const std::string key = quoted();
      expect(':');
      if (key == "descr" && !descr) {
        descr = true;
        literal.structured = next() == '[';
        if (literal.structured) return literal; // refused by the caller
        literal.descr = quoted();
      } else if (key == "fortran_order" && !fortran) {
        fortran = true;
        literal.fortran = boolean();
      } else if (key == "shape" && !shape) {
        shape = true;
        literal.shape = tuple();
      } else {
        refuse(fmt::format("'{}' is repeated or unknown", shown(key)));
      }
      if (!accept(',') && next() != '}') refuse("',' or '}' expected");
    }
    if (!descr || !fortran || !shape) refuse("'descr', 'fortran_order' or 'shape' is missing");
    next();
    if (!text_.empty()) refuse("more text after '}'");
    return literal;
  }

private:
  [[noreturn]] void refuse(const std::string& why) const {
    fail("{}: NPY header: {}, at '{}'", where_, why, shown(text_.substr(0, 20)));
  }
  /// Skips space and returns the next character, or '\0' at the end.
  char next() {
    while (!text_.empty() && std::string_view(" \n\t\r").find(text_[0]) != std::string_view::npos)
      text_.remove_prefix(1);
    return text_.empty() ? '\0' : text_[0];
  }
  bool accept(char wanted) {
    if (next() != wanted || text_.empty()) return false;
    text_.remove_prefix(1);
    return true;
  }
  void expect(char wanted) {
    if (!accept(wanted)) refuse(fmt::format("'{}' expected", wanted));
  }
  std::string quoted() {
    const char quote = next();
    const std::size_t end =
        quote == '\'' || quote == '"' ? text_.find(quote, 1) : std::string_view::npos;
    if (end == std::string_view::npos) refuse("a quoted word expected");
    std::string word(text_.substr(1, end - 1));
    if (word.find('\\') != std::string::npos) refuse("escapes are not read");
    text_.remove_prefix(end + 1);
    return word;
  }
  bool boolean() {
    next();
    for (const auto& [word, value] : {std::pair{std::string_view("True"), true}, {"False", false}})
      if (text_.starts_with(word)) {
        text_.remove_prefix(word.size());
        return value;
      }
    refuse("True or False expected");
  }
  Shape tuple() {
    Shape shape;
    expect('(');
    bool comma = true; // (3) is a number in Python, (3,) a tuple
    while (!accept(')')) {
      if (!comma) refuse("',' or ')' expected");
      next();
      const auto length = take_number<std::size_t>(text_);
      if (!length) refuse("the length of an axis expected");
      if (text_.starts_with('L')) text_.remove_prefix(1); // as Python 2 wrote long integers
      shape.push_back(*length);
      comma = accept(',');
    }
    if (shape.size() == 1 && !comma) refuse("a tuple expected for 'shape'");
    return shape;
  }

  const std::string& where_;
  std::string_view text_;
};

} // namespace

NpyLiteral parse_npy_literal(const std::string& where, std::string_view text) {
  return LiteralParser(where, text).parse();
}

} // namespace mha::io
