#pragma once
// Numbers and words as text: exact for machines, and rounded for readers.

#include <mha/naming/tensor_names.hpp>
#include <mha/system/characters.hpp>
#include <mha/tensor/tensor.hpp>

#include <optional>

namespace mha::render {

/// The spelling of numbers that are not finite.
enum class Dialect : std::uint8_t {
  csv,  ///< inf, -inf, nan
  json, ///< "Infinity", "-Infinity", "NaN": strings that every reader survives
};

/// Appends numbers of a tensor (f32 or f64) as the shortest text that reads back to the same value,
/// or with some significant digits.
class NumberWriter {
public:
  NumberWriter(Dialect dialect, std::optional<std::size_t> precision)
      : dialect_(dialect), precision_(precision) {}
  void append(std::string& out, float value) const { append_as(out, value); }
  void append(std::string& out, double value) const { append_as(out, value); }

private:
  template <class T> void append_as(std::string& out, T value) const;
  Dialect dialect_;
  std::optional<std::size_t> precision_;
};

/// One number that reads back to the same value, or has `precision` significant digits; of none
/// "null" in JSON, "" in CSV.
std::string exact(const std::optional<double>& number, Dialect dialect,
                  std::optional<std::size_t> precision = {});

/// One number for readers, with about `digits` significant ones: "0", "-6.213", "2.1e-05", "-inf".
std::string rounded(double value, std::size_t digits = 4);

/// With so many decimals; or as a power of ten where those would all be 0: "0.0312", "2e-05".
std::string fixed(double value, std::size_t decimals);
std::string fixed_or_power(double value, std::size_t decimals);
/// A probability: 0.091, or 1.35e-04.
std::string chance(double p);

/// One format for a column of numbers, chosen by the largest of them.
class ColumnFormat {
public:
  /// Numbers of f32 or f64; `digits` significant ones of the largest. Whole numbers have none after
  /// the point.
  ColumnFormat(const Tensor& numbers, std::size_t digits, bool whole_numbers = false);
  std::size_t width() const { return width_; }
  /// Whether this format also suits the numbers that `own` was made for: the largest of them
  /// keeps two digits and has no exponent that it does not need, or is next to nothing.
  bool suits(const ColumnFormat& own) const;
  /// Appends the number right-aligned in `width` columns.
  void append(std::string& out, double value, std::size_t width) const;

private:
  double largest_ = 0;
  std::size_t width_ = 1, decimals_ = 0;
  bool scientific_ = false;
};

/// A field of CSV, quoted where it must be; of TSV, with \t, \n and \\ escaped.
std::string csv_field(std::string_view text);
std::string tsv_field(std::string_view text);
/// A tab for tsv, else a comma.
constexpr char separator_of(std::string_view form) {
  return form == "tsv" ? '\t' : ',';
}
/// A field, or a line of fields, of TSV where `separator` is a tab, else of CSV.
std::string separated_field(std::string_view text, char separator);
std::string separated_line(const std::vector<std::string>& cells, char separator);

/// "4 × 33 × 16"; "1" for a single number.
std::string shape_text(const Shape& shape);

} // namespace mha::render
