#include <mha/render/numbers.hpp>

#include <mha/naming/tensor_names.hpp>
#include <mha/system/characters.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>

namespace mha::render {

namespace {

std::string_view word_for(double value, Dialect dialect) {
  if (std::isnan(value)) return dialect == Dialect::json ? "\"NaN\"" : "nan";
  if (value > 0) return dialect == Dialect::json ? "\"Infinity\"" : "inf";
  return dialect == Dialect::json ? "\"-Infinity\"" : "-inf";
}

/// The numbers with the most digits on either side of zero, and which words appear.
struct NumberRange {
  double highest = 0, lowest = 0;
  bool infinite = false, negative_infinite = false, nan = false;
};

template <class T> NumberRange range_of_numbers(std::span<const T> numbers) {
  NumberRange range;
  T highest = 0, lowest = 0;
  for (T number : numbers) {
    if (std::isfinite(number)) {
      highest = std::max(highest, number);
      lowest = std::min(lowest, number);
    } else if (std::isnan(number)) {
      range.nan = true;
    } else {
      (number < 0 ? range.negative_infinite : range.infinite) = true;
    }
  }
  range.highest = static_cast<double>(highest);
  range.lowest = static_cast<double>(lowest);
  return range;
}

} // namespace

template <class T> void NumberWriter::append_as(std::string& out, T value) const {
  if (!std::isfinite(value))
    out += word_for(static_cast<double>(value), dialect_);
  else if (precision_)
    fmt::format_to(std::back_inserter(out), "{:.{}g}", value, *precision_);
  else
    fmt::format_to(std::back_inserter(out), "{}", value);
}
template void NumberWriter::append_as(std::string&, float) const;
template void NumberWriter::append_as(std::string&, double) const;

std::string exact(const std::optional<double>& number, Dialect dialect,
                  std::optional<std::size_t> precision) {
  if (!number) return dialect == Dialect::json ? "null" : "";
  std::string text;
  NumberWriter(dialect, precision).append(text, *number);
  return text;
}

std::string rounded(double value, std::size_t digits) {
  if (!std::isfinite(value)) return std::string(word_for(value, Dialect::csv));
  if (value == 0) return "0";
  const std::size_t decimals = digits > 0 ? digits - 1 : 0;
  const double magnitude = std::fabs(value);
  const double smallest = std::pow(10.0, -static_cast<double>(decimals));
  if (magnitude < smallest || magnitude >= 1e6)
    return fmt::format("{:.{}e}", value, std::min<std::size_t>(decimals, 2));
  return fmt::format("{:.{}f}", value, decimals);
}

std::string fixed(double value, std::size_t decimals) {
  return fmt::format("{:.{}f}", value == 0 ? 0.0 : value, decimals);
}

std::string fixed_or_power(double value, std::size_t decimals) {
  const double least = 0.5 * std::pow(10.0, -static_cast<double>(decimals));
  return value != 0 && std::abs(value) < least ? fmt::format("{:.0e}", value)
                                               : fmt::format("{:.{}f}", value, decimals);
}

std::string chance(double p) {
  return p >= 0.0005 ? fixed(p, 3) : rounded(p, 3);
}

ColumnFormat::ColumnFormat(const Tensor& numbers, std::size_t digits, bool whole_numbers) {
  const NumberRange range = numbers.dtype() == DType::f64 ? range_of_numbers(numbers.as<double>())
                                                          : range_of_numbers(numbers.as<float>());
  digits = std::max<std::size_t>(digits, 1);
  const double magnitude = largest_ = std::max(range.highest, -range.lowest);
  scientific_ = magnitude != 0 && (magnitude < 1e-3 || magnitude >= 1e6);
  if (scientific_) {
    decimals_ = digits - 1;
  } else if (magnitude <= 1) {
    decimals_ =
        magnitude == 0 ? 0 : digits; // weights: as many digits as are asked for after the point
  } else {
    const std::size_t whole = static_cast<std::size_t>(std::log10(magnitude)) + 1;
    decimals_ = digits > whole ? digits - whole : 1;
  }
  if (whole_numbers && !scientific_) decimals_ = 0;
  const auto width = [&](double value) {
    return scientific_ ? fmt::formatted_size("{:.{}e}", value, decimals_)
                       : fmt::formatted_size("{:.{}f}", value, decimals_);
  };
  if (range.highest != 0) width_ = std::max(width_, width(range.highest));
  if (range.lowest != 0) width_ = std::max(width_, width(range.lowest));
  if (scientific_) width_ = std::max(width_, width(range.lowest < 0 ? -1.0 : 1.0));
  if (range.nan || range.infinite) width_ = std::max<std::size_t>(width_, 3);
  if (range.negative_infinite) width_ = std::max<std::size_t>(width_, 4);
}

bool ColumnFormat::suits(const ColumnFormat& own) const {
  if (own.largest_ == 0 || own.scientific_) return true;
  if (scientific_) return false;
  return decimals_ >= 2 || own.largest_ * std::pow(10.0, static_cast<double>(decimals_)) >= 10;
}

void ColumnFormat::append(std::string& out, double value, std::size_t width) const {
  auto end = std::back_inserter(out);
  if (value == 0)
    fmt::format_to(end, "{:>{}}", '0', width);
  else if (!std::isfinite(value))
    fmt::format_to(end, "{:>{}}", word_for(value, Dialect::csv), width);
  else if (scientific_)
    fmt::format_to(end, "{:>{}.{}e}", value, width, decimals_);
  else
    fmt::format_to(end, "{:>{}.{}f}", value, width, decimals_);
}

std::string csv_field(std::string_view text) {
  bool quoted = false;
  std::string field = escaped(
      text, [&](const Utf8& character, std::string_view bytes) -> std::optional<std::string> {
        quoted = quoted || bytes == "," || bytes == "\"" || bytes == "\n";
        if (bytes == "\"") return "\"\"";
        if (bytes == "\n" || bytes == "\t") return std::nullopt; // a quoted field may have lines
        return safe_escape(character);
      });
  return quoted ? '"' + field + '"' : field;
}

std::string tsv_field(std::string_view text) {
  return escaped(text,
                 [](const Utf8& character, std::string_view bytes) -> std::optional<std::string> {
                   if (bytes == "\t") return "\\t";
                   if (bytes == "\n") return "\\n";
                   if (bytes == "\r") return "\\r";
                   if (bytes == "\\") return "\\\\";
                   return safe_escape(character);
                 });
}

std::string separated_field(std::string_view text, char separator) {
  return separator == '\t' ? tsv_field(text) : csv_field(text);
}

std::string separated_line(const std::vector<std::string>& cells, char separator) {
  std::string line;
  for (std::size_t i = 0; i < cells.size(); ++i) {
    if (i > 0) line += separator;
    line += separated_field(cells[i], separator);
  }
  return line + '\n';
}

std::string shape_text(const Shape& shape) {
  return shape.empty() ? "1" : fmt::format("{}", fmt::join(shape, " × "));
}

} // namespace mha::render
