#include <mha/formats/text_numbers.hpp>

#include <mha/files/text.hpp>
#include <mha/system/characters.hpp>
#include <mha/system/parse.hpp>
#include <mha/system/words.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace mha::io {

namespace {

bool is_truth(std::string_view word) {
  return word == "true" || word == "false" || word == "True" || word == "False" || word == "TRUE" ||
         word == "FALSE";
}

/// The place of a number's exponent letter: C's, Fortran's and Julia's for float32.
std::size_t exponent_at(std::string_view word) {
  const std::size_t at = word.find_first_of("eEdDf");
  return at == 0 || at == std::string_view::npos ? word.size() : at;
}

/// Digits with at most one point among them.
bool are_digits(std::string_view text) {
  const auto points = std::ranges::count(text, '.');
  return points <= 1 && text.size() > static_cast<std::size_t>(points) &&
         std::ranges::all_of(text, [](char c) { return is_digit(c) || c == '.'; });
}

} // namespace

void TextFile::refuse(std::size_t line, const std::string& why) const {
  fail("{}: line {}: {}", shown(name), line, why);
}

std::string quoted(std::string_view word) {
  constexpr std::size_t most = 40;
  return fmt::format("'{}{}'", shown(word.substr(0, most)), word.size() > most ? "…" : "");
}

std::optional<double> printed_number(std::string_view word) {
  if (is_truth(word)) return ascii_lower(word[0]) == 't' ? 1 : 0;
  const bool negative = word.starts_with('-');
  if (negative || word.starts_with('+')) word.remove_prefix(1);
  const double sign = negative ? -1 : 1;
  const std::string lower = word.size() < 9 ? lowered(word) : "";
  if (lower == "inf" || lower == "infinity") return sign * std::numeric_limits<double>::infinity();
  if (lower == "nan") return std::numeric_limits<double>::quiet_NaN();
  const std::size_t end = exponent_at(word);
  if (!are_digits(word.substr(0, end))) return std::nullopt;
  if (end == word.size())
    if (const auto number = parse_number<double>(word)) return sign * *number;
  std::string_view power = word.substr(std::min(end + 1, word.size()));
  if (power.starts_with('+')) power.remove_prefix(1);
  const auto digits = parse_number<int>(power);
  if (!digits) return std::nullopt;
  const auto number = parse_number<double>(fmt::format("{}e{}", word.substr(0, end), *digits));
  // What is too small for float64 is 0, as everywhere; what is too large is refused.
  if (!number && *digits < -300) return sign * 0.0;
  return number ? std::optional(sign * *number) : std::nullopt;
}

std::optional<double> number_with_comma(std::string_view word) {
  if (word.find('.') != word.npos || std::ranges::count(word, ',') > 1) return std::nullopt;
  return printed_number(with_replaced(word, {{',', "."}}));
}

void PrintedNumbers::note_digits(std::string_view word) {
  const std::size_t point = word.find_first_of(".,"), end = exponent_at(word);
  // MATLAB and tables of integers print 0 without decimals among others with them.
  if (word == "0" || word.empty() || !is_digit(word.back() == '.' ? '0' : word.back())) return;
  const int decimals = point < end ? static_cast<int>(end - point - 1) : 0;
  if (decimals_ >= 0 && decimals != decimals_) mixed_ = true;
  decimals_ = decimals, ++pointed_;
  if (decimals > most_) most_ = decimals, with_most_ = 0;
  if (decimals == most_) ++with_most_;
  if (decimals >= 2 && word[end - 1] == '0') ends_in_zero_ = true;
  if (end == word.size()) return;
  std::string_view power = word.substr(end + 1);
  if (power.starts_with('+')) power.remove_prefix(1);
  const int exponent = parse_number<int>(power).value_or(0);
  exponent_ = powers_ ? std::max(exponent_, exponent) : exponent;
  powers_ = true;
}

bool PrintedNumbers::add(std::string_view word) {
  const std::optional<double> number = printed_number(word);
  const bool truth = is_truth(word);
  if (!number || (truth ? truths_ < values_.size() : truths_ > 0)) return false;
  if (truth) ++truths_;
  values_.push_back(*number);
  if (!truth) note_digits(word);
  return true;
}

bool PrintedNumbers::add_with_comma(std::string_view word) {
  const std::optional<double> number = number_with_comma(word);
  if (!number || truths_ > 0) return false;
  values_.push_back(*number);
  note_digits(word);
  return true;
}

void PrintedNumbers::scale(double factor) {
  for (double& value : values_) value *= factor;
  factor_ *= factor;
}

void PrintedNumbers::arrange(const std::vector<std::size_t>& to, std::size_t count) {
  std::vector<double> arranged(count);
  for (std::size_t i = 0; i < to.size(); ++i) arranged[to[i]] = values_[i];
  values_.swap(arranged);
}

double PrintedNumbers::resolution() const {
  // The shortest text of a number never ends in 0 after two decimals: such a text has a fixed
  // length. So have PyTorch's and MATLAB's four decimals.
  constexpr int most_fixed = 7, usual = 4, numpys = 8;
  const double unit = std::pow(10.0, exponent_ - most_) * factor_ / 2;
  if (!mixed_ && (most_ == usual || (ends_in_zero_ && most_ <= most_fixed))) return unit;
  // NumPy cuts at its eighth decimal, and leaves zeros out.
  return most_ == numpys && !powers_ && pointed_ >= numpys && with_most_ * 2 >= pointed_ ? unit : 0;
}

std::string PrintedNumbers::digits() const {
  return resolution() == 0 ? ""
         : powers_         ? counted(static_cast<std::size_t>(most_) + 1, "digits")
                           : counted(static_cast<std::size_t>(most_), "decimals");
}

std::function<Tensor()> steps_of_digits(const Shape& shape, double step) {
  return [shape, step] {
    Tensor steps = Tensor::uninitialised(DType::f64, shape);
    std::ranges::fill(steps.as_mutable<double>(), step);
    return steps;
  };
}

Entry PrintedNumbers::entry(std::string name, const Shape& shape,
                            const std::vector<std::size_t>& order) {
  const bool truths = truths_ > 0;
  const double unit = resolution();
  Tensor tensor = Tensor::of<double>(shape, values_);
  std::vector<double>().swap(values_); // an array may be large, and is not needed twice
  if (!std::ranges::is_sorted(order)) tensor = permuted(tensor, order);
  if (truths) tensor = convert(tensor, DType::boolean);
  Entry entry{std::move(name), tensor.dtype(), tensor.shape(), !truths,
              [tensor] { return tensor; }};
  if (unit > 0) entry.steps = steps_of_digits(entry.shape, 2 * unit);
  return entry;
}

std::string_view trimmed(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t");
  if (first == text.npos) return {};
  return text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

std::string_view LineReader::next() {
  const std::size_t end = std::min(rest_.find('\n'), rest_.size());
  std::string_view line = rest_.substr(0, end);
  rest_.remove_prefix(std::min(end + 1, rest_.size()));
  ++line_;
  if (line.ends_with('\r')) line.remove_suffix(1);
  return line;
}

namespace {

/// A field of TSV: without its quotes or escapes.
std::string field_of_tsv(std::string_view text) {
  const bool quotes = text.size() > 1 && text.starts_with('"') && text.ends_with('"');
  if (quotes) text = text.substr(1, text.size() - 2);
  std::string result;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char next = i + 1 < text.size() ? text[i + 1] : '\0';
    const bool doubled = quotes && text[i] == '"' && next == '"';
    const bool escape = text[i] == '\\' && (next == 't' || next == 'n' || next == '\\');
    result += !escape ? text[i] : next == 't' ? '\t' : next == 'n' ? '\n' : '\\';
    i += doubled || escape ? 1 : 0;
  }
  return result;
}

} // namespace

/// Takes a field in quotes, which may hold separators, doubled quotes and line feeds, off `line`.
std::string FieldReader::take_quoted(std::string_view& line) {
  std::string field;
  for (line.remove_prefix(line.find('"') + 1);;) {
    const std::size_t quote = line.find('"');
    field += line.substr(0, quote);
    if (quote == line.npos) {
      if (lines_.at_end()) file_.refuse(line_, "a quote is not closed");
      field += '\n';
      line = lines_.next();
      continue;
    }
    line.remove_prefix(quote + 1);
    if (!line.starts_with('"')) return field;
    field += '"';
    line.remove_prefix(1);
  }
}

bool FieldReader::next(std::vector<std::string>& fields) {
  fields.clear();
  if (lines_.at_end()) return false;
  std::string_view line = lines_.next();
  line_ = lines_.line();
  if (separator_ == ' ') {
    fields = words_of<std::string>(line, " \t");
    return true;
  }
  for (bool more = !trimmed(line).empty(); more;) {
    if (separator_ != '\t' && trimmed(line).starts_with('"')) {
      fields.push_back(take_quoted(line));
      if (!trimmed(line.substr(0, line.find(separator_))).empty())
        file_.refuse(lines_.line(), "text after a closing quote");
    } else {
      const std::string_view field = line.substr(0, line.find(separator_));
      fields.push_back(separator_ == '\t' ? field_of_tsv(field) : std::string(field));
    }
    const std::size_t end = line.find(separator_);
    more = end != line.npos;
    line.remove_prefix(more ? end + 1 : line.size());
  }
  return true;
}

} // namespace mha::io
