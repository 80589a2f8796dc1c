#include <mha/formats/json_mistake.hpp>

#include <mha/files/text.hpp>
#include <mha/system/characters.hpp>
#include <mha/system/parse.hpp>

#include <algorithm>
#include <vector>

namespace mha::io {

namespace {

constexpr std::string_view blanks = " \t\r\n";
constexpr std::string_view of_a_number = "0123456789.eE";

/// The characters around the place of a mistake.
class MistakeReader {
public:
  MistakeReader(std::string_view text, std::size_t at, std::string_view expected)
      : text_(text), at_(at), expected_(expected), rest_(text.substr(at)) {
    const std::size_t last = text.substr(0, at).find_last_not_of(blanks);
    before_ = last == text.npos ? 0 : last;
    first_ = rest_.empty() ? '\0' : rest_[0];
    last_ = last == text.npos ? '\0' : text[last];
  }

  JsonMistake read() const {
    const bool ends = rest_.empty() && !expects("the text ends");
    if (last_ == ',' && (first_ == '}' || first_ == ']'))
      return {before_, fmt::format("a comma before the closing {}: remove it", first_)};
    if (expects("':'") && first_ == ',') return {at_, "':' expected: a name needs a value"};
    if (closes(']') && first_ == ':' && last_ == '"')
      return {name_before(), missing("]", "before this name")};
    const std::string cure = this->cure();
    const std::size_t end = last_ == '\0' ? at_ : before_ + 1; // not on a line after the text
    return {rest_.empty() ? end : at_, fmt::format("{}{}{}{}", ends ? "the text ends; " : "",
                                                   expected_, cure.empty() ? "" : ": ", cure)};
  }

private:
  bool expects(std::string_view what) const { return expected_.starts_with(what); }
  /// Whether a comma or this bracket is expected.
  bool closes(char bracket) const {
    return expects("',' or '") && expected_[std::string_view("',' or '").size()] == bracket;
  }
  bool expects_comma() const { return expects("',' or"); }
  bool expects_value() const { return !expects_comma() && !expects("':'") && !expects("more"); }
  bool next_is(std::string_view start) const { return rest_.starts_with(start); }

  static std::string missing(std::string_view bracket, std::string_view where) {
    return fmt::format("a closing {} is missing {}", bracket, where);
  }

  /// The letters, digits and points from a byte of the rest on.
  std::string_view word(std::size_t from = 0) const {
    std::size_t end = from;
    while (end < rest_.size() && (is_letter(rest_[end]) || is_digit(rest_[end]) ||
                                  rest_[end] == '.' || rest_[end] == '_'))
      ++end;
    return rest_.substr(from, end - from);
  }
  bool string_before_colon() const {
    const std::size_t end = rest_.find('"', 1);
    if (end == rest_.npos) return false;
    const std::size_t next = rest_.find_first_not_of(blanks, end + 1);
    return next != rest_.npos && rest_[next] == ':';
  }
  /// The opening quote of the name that ends before the place.
  std::size_t name_before() const {
    const std::size_t quote = before_ == 0 ? text_.npos : text_.rfind('"', before_ - 1);
    return quote == text_.npos ? at_ : quote;
  }

  /// The bracket that was opened last and is open at the end.
  std::string unclosed() const {
    std::vector<std::size_t> open;
    for (std::size_t i = 0; i < at_; ++i) {
      if (text_[i] == '"')
        for (++i; i < at_ && text_[i] != '"'; ++i) i += text_[i] == '\\';
      else if (text_[i] == '[' || text_[i] == '{')
        open.push_back(i);
      else if ((text_[i] == ']' || text_[i] == '}') && !open.empty())
        open.pop_back();
    }
    if (open.empty()) return "";
    return fmt::format("the {} of {} is not closed", text_[open.back()],
                       JsonLines(text_).of(text_.data() + open.back()));
  }

  /// "write 0.5" for 1/2.
  std::string fraction() const {
    const std::size_t begin = text_.find_last_not_of(of_a_number, before_) + 1;
    const auto above = parse_number<double>(text_.substr(begin, before_ + 1 - begin));
    std::string_view below = rest_.substr(1);
    below.remove_prefix(std::min(below.find_first_not_of(blanks), below.size()));
    const auto divisor = take_number<double>(below);
    if (!above || !divisor || *divisor == 0) return "JSON has no fractions: write the number";
    return fmt::format("JSON has no fractions: write {}", number_text(*above / *divisor));
  }

  std::string of_word() const {
    const std::string_view name = word(first_ == '-' ? 1 : 0);
    if (name == "True" || name == "False" || name == "None")
      return "JSON writes true, false and null";
    if (expects("a name")) return fmt::format("write \"{}\"", shown(name));
    if (name.ends_with(".inf") || name.ends_with(".nan")) return "write -inf, inf or nan";
    const std::size_t end = static_cast<std::size_t>(name.data() + name.size() - text_.data());
    if (text_.substr(end).starts_with('(')) return "JSON has no formulas: write the number";
    return "";
  }

  /// Where a comma or a closing bracket is expected.
  std::string of_separator() const {
    if (first_ == ';') return "each row is a list of its own: [[1, 2], [3, 4]]";
    if (first_ == '}' && closes(']')) return missing("]", "before it");
    if (first_ == ']' && closes('}')) return missing("}", "before it");
    if (closes(']') && first_ == '"' && string_before_colon())
      return missing("]", "before this name");
    const bool starts = is_digit(first_) || is_letter(first_) || first_ == '"' || first_ == '-' ||
                        first_ == '[' || first_ == '{';
    return starts ? "a comma is missing before it" : "";
  }

  std::string of_number() const {
    if (first_ == '+' && !word(1).empty())
      return fmt::format("write {} without the +", shown(word(1)));
    const std::size_t sign = first_ == '-' ? 1 : 0;
    const std::string_view digits = word(sign);
    if (digits.starts_with("..") || next_is("…")) return "write all the numbers";
    const std::string_view minus = rest_.substr(0, sign);
    if (digits.size() > 1 && digits[0] == '.')
      return fmt::format("write {}0{}", minus, shown(digits));
    if (digits.size() > 1 && digits.ends_with('.'))
      return fmt::format("write {}{}0", minus, shown(digits));
    if (expects("a number with a leading zero")) {
      std::size_t plain = std::min(digits.find_first_not_of('0'), digits.size() - 1);
      if (digits[plain] == '.') --plain;
      return fmt::format("write {}{}", minus, shown(digits.substr(plain)));
    }
    return "";
  }

  std::string cure() const {
    if (rest_.empty()) return unclosed();
    if (next_is("//") || next_is("/*") || first_ == '#' || first_ == '%')
      return "JSON has no comments: remove it";
    if (first_ == '/' && is_digit(last_)) return fraction();
    if (first_ == '\'') {
      const std::size_t end = rest_.find('\'', 1);
      if (end == rest_.npos) return "JSON writes text in double quotes";
      return fmt::format("JSON writes text in double quotes: \"{}\"",
                         shown(rest_.substr(1, end - 1)));
    }
    if (next_is("“") || next_is("”") || next_is("„")) return "write straight quotes: \"";
    if (next_is("−") || next_is("–")) return "write a minus as the keyboard's -";
    if (first_ == '=') return "JSON writes \"name\": value";
    if (first_ == '(') return "JSON writes lists in square brackets";
    if (first_ == ',' && last_ == ',') return "two commas: remove one";
    if (first_ == ',' && (last_ == '[' || last_ == '{'))
      return "a comma after the opening bracket: remove it";
    if (expects_comma()) return of_separator();
    if (expects("more")) {
      if (first_ == '}' || first_ == ']') return fmt::format("one closing {} too many", first_);
      return first_ == ',' || first_ == '{' ? "put all names into one object" : "";
    }
    if (first_ == '"' && expects_value() && string_before_colon())
      return missing("]", "before this name");
    const std::string_view unsigned_word = word(first_ == '-' ? 1 : 0);
    if (!unsigned_word.empty() && is_letter(unsigned_word[0])) return of_word();
    return expects("a name") || expects("':'") ? "" : of_number();
  }

  std::string_view text_;
  std::size_t at_;
  std::string_view expected_, rest_;
  std::size_t before_; ///< the last byte before the place that is not blank
  char first_, last_;  ///< at the place, and at `before_`
};

} // namespace

JsonMistake json_mistake(std::string_view text, std::size_t at, std::string_view expected) {
  return MistakeReader(text, at, expected).read();
}

JsonLine json_line_at(std::string_view text, std::size_t at) {
  constexpr std::size_t most_before = 60, most_after = 30;
  const std::size_t last_break = text.substr(0, at).rfind('\n'), next_break = text.find('\n', at);
  std::size_t begin = last_break == text.npos ? 0 : last_break + 1;
  std::size_t end = next_break == text.npos ? text.size() : next_break;
  if (at - begin > most_before) begin = at - most_before;
  if (end > at && end - at > most_after) end = at + most_after;
  while (begin < at && continues_utf8(text[begin])) ++begin;
  while (end > at && end < text.size() && continues_utf8(text[end])) --end;
  JsonLine line{std::string(text.substr(begin, at - begin)),
                std::string(text.substr(at, end > at ? end - at : 0))};
  std::ranges::replace(line.before, '\t', ' ');
  if (line.after.ends_with('\r')) line.after.pop_back();
  return line;
}

} // namespace mha::io
