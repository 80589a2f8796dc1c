#pragma once
// The parts that all readers of text files need: places for messages, and numbers as programs print
// them.

#include <mha/files/contents.hpp>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace mha::io {

/// A text that is read, and what is known of its file.
struct TextFile {
  std::string name, extension;
  std::string_view text;

  /// Throws Error "FILE: line 3: WHY".
  [[noreturn]] void refuse(std::size_t line, const std::string& why) const;
};

/// The value of a number as programs print it: "-1.5", ".5", "1.", "+2e-3", "1d-3", "NaN", "-inf",
/// "True". None for other words, and for numbers that float64 cannot hold.
std::optional<double> printed_number(std::string_view word);
/// The same for a number with a decimal comma; none for one with a point.
std::optional<double> number_with_comma(std::string_view word);

/// A word for a message, cut where it is long.
std::string quoted(std::string_view word);

/// The numbers of one array in the order in which they are read, and how they were printed.
class PrintedNumbers {
public:
  /// Adds a word that is a number; false, and nothing is added, for another.
  bool add(std::string_view word);
  bool add_with_comma(std::string_view word);
  /// Adds a number that does not come from a word.
  void add(double number) { values_.push_back(number); }
  /// Multiplies the numbers: "1.0e+03 *".
  void scale(double factor);
  /// Puts number i at place to[i] of `count`, and 0 at the others.
  void arrange(const std::vector<std::size_t>& to, std::size_t count);
  std::size_t count() const { return values_.size(); }

  /// Half of the last digit where all were printed with as many digits; 0 where that is not seen.
  double resolution() const;
  /// "4 decimals", "5 digits"; "" where they have no common end.
  std::string digits() const;
  /// The array; `order`: of its axes, where they were read in another.
  Entry entry(std::string name, const Shape& shape, const std::vector<std::size_t>& order = {});

private:
  void note_digits(std::string_view word);

  std::vector<double> values_;
  std::size_t truths_ = 0, pointed_ = 0, with_most_ = 0;
  int decimals_ = -1, most_ = 0, exponent_ = 0;
  bool mixed_ = false, ends_in_zero_ = false, powers_ = false;
  double factor_ = 1;
};

/// The steps of an Entry whose numbers were printed with a common last digit.
std::function<Tensor()> steps_of_digits(const Shape& shape, double step);

// The readers. Each adds to `contents`, with a note of how it read.
void read_rows(const TextFile& file, bool token_lines, Contents& contents);
void read_long_csv(const TextFile& file, char separator, Contents& contents);
void read_ndjson(const TextFile& file, Contents& contents);
void read_brackets(const TextFile& file, Contents& contents);
void read_display(const TextFile& file, Contents& contents);
void read_eval_callback(const TextFile& file, Contents& contents);

/// Whether a text is what each reader is for.
bool is_long_csv(std::string_view text, char separator);
bool is_ndjson(std::string_view text);
bool has_brackets(std::string_view text);
bool is_display(std::string_view text);
bool is_eval_callback(std::string_view text);

/// A text without blanks at its ends.
std::string_view trimmed(std::string_view text);

/// The lines of a text, without their ends.
class LineReader {
public:
  explicit LineReader(std::string_view text) : rest_(text) {}
  bool at_end() const { return rest_.empty(); }
  std::string_view next();
  /// The number of the line that was read last, from 1 on.
  std::size_t line() const { return line_; }

private:
  std::string_view rest_;
  std::size_t line_ = 0;
};

/// The fields of each line: of CSV, in quotes where they hold a separator; of TSV, with \t, \n and
/// \\ as escapes; or the words between blanks, for a blank.
class FieldReader {
public:
  FieldReader(const TextFile& file, char separator)
      : file_(file), lines_(file.text), separator_(separator) {}
  /// Reads a line, which has no fields where it is empty; false at the end of the text.
  bool next(std::vector<std::string>& fields);
  /// The line on which the fields begin.
  std::size_t line() const { return line_; }

private:
  std::string take_quoted(std::string_view& line);

  const TextFile& file_;
  LineReader lines_;
  char separator_;
  std::size_t line_ = 0;
};

} // namespace mha::io
