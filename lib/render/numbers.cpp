#include <mha/render/numbers.hpp>

#include <utf8proc.h>

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
struct Extent {
  double highest = 0, lowest = 0;
  bool infinite = false, negative_infinite = false, nan = false;
};

template <class T> Extent extent_of(std::span<const T> numbers) {
  Extent extent;
  T highest = 0, lowest = 0;
  for (T number : numbers) {
    if (std::isfinite(number)) {
      highest = std::max(highest, number);
      lowest = std::min(lowest, number);
    } else if (std::isnan(number)) {
      extent.nan = true;
    } else {
      (number < 0 ? extent.negative_infinite : extent.infinite) = true;
    }
  }
  extent.highest = static_cast<double>(highest);
  extent.lowest = static_cast<double>(lowest);
  return extent;
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

ColumnFormat::ColumnFormat(const Tensor& numbers, std::size_t digits) {
  const Extent extent = numbers.dtype() == DType::f64 ? extent_of(numbers.as<double>())
                                                      : extent_of(numbers.as<float>());
  digits = std::max<std::size_t>(digits, 1);
  const double magnitude = std::max(extent.highest, -extent.lowest);
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
  const auto width = [&](double value) {
    return scientific_ ? fmt::formatted_size("{:.{}e}", value, decimals_)
                       : fmt::formatted_size("{:.{}f}", value, decimals_);
  };
  if (extent.highest != 0) width_ = std::max(width_, width(extent.highest));
  if (extent.lowest != 0) width_ = std::max(width_, width(extent.lowest));
  if (scientific_) width_ = std::max(width_, width(extent.lowest < 0 ? -1.0 : 1.0));
  if (extent.nan || extent.infinite) width_ = std::max<std::size_t>(width_, 3);
  if (extent.negative_infinite) width_ = std::max<std::size_t>(width_, 4);
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

std::string json_quoted(std::string_view text) {
  std::string out = "\"";
  while (!text.empty()) {
    const auto byte = static_cast<unsigned char>(text[0]);
    std::size_t bytes = 1;
    if (byte == '"' || byte == '\\')
      out += {'\\', text[0]};
    else if (byte == '\n')
      out += "\\n";
    else if (byte == '\t')
      out += "\\t";
    else if (byte < 0x20 || byte == 0x7f)
      out += fmt::format("\\u{:04x}", byte);
    else if (byte < 0x80)
      out += text[0];
    else {
      utf8proc_int32_t code = 0;
      const utf8proc_ssize_t length =
          utf8proc_iterate(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                           static_cast<utf8proc_ssize_t>(text.size()), &code);
      if (length > 0)
        bytes = static_cast<std::size_t>(length), out += text.substr(0, bytes);
      else
        out += "\xef\xbf\xbd";
    }
    text.remove_prefix(bytes);
  }
  return out + '"';
}

std::string csv_field(std::string_view text) {
  if (text.find_first_of(",\"\n\r") == std::string_view::npos) return std::string(text);
  std::string out = "\"";
  for (char c : text) {
    if (c == '"') out += '"';
    out += c;
  }
  return out + '"';
}

std::string tsv_field(std::string_view text) {
  std::string out;
  for (char c : text) {
    if (c == '\t')
      out += "\\t";
    else if (c == '\n')
      out += "\\n";
    else if (c == '\r')
      out += "\\r";
    else if (c == '\\')
      out += "\\\\";
    else
      out += c;
  }
  return out;
}

std::string shape_text(const Shape& shape) {
  std::string text;
  for (std::size_t size : shape) text += fmt::format("{}{}", text.empty() ? "" : " × ", size);
  return text.empty() ? "1" : text;
}

} // namespace mha::render
