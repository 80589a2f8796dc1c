// Lines of numbers: CSV, TSV and words between blanks, with or without a header and a first column
// of labels; an empty line between matrices.

#include <mha/files/text.hpp>
#include <mha/formats/text_numbers.hpp>
#include <mha/system/characters.hpp>
#include <mha/system/one_of.hpp>
#include <mha/system/words.hpp>

#include <fmt/format.h>

#include <algorithm>

namespace mha::io {

namespace {

using Fields = std::vector<std::string>;

/// How the lines of a file are written.
struct RowForm {
  char separator = ',';
  bool commas = false; ///< numbers have decimal commas
  bool header = false, labels = false;
  bool ends = false; ///< a separator ends each line

  bool is_number(std::string_view field) const {
    return (commas ? number_with_comma(trimmed(field)) : printed_number(trimmed(field)))
        .has_value();
  }
  /// A token or a name: what begins like a number and is none is a mistake.
  bool is_words(std::string_view field) const {
    field = trimmed(field);
    const std::size_t first = field.find_first_not_of("+-.");
    const bool begins_as_number = first != field.npos && first < 3 && is_digit(field[first]);
    return !field.empty() && !begins_as_number && !is_number(field);
  }
};

bool is_blank(const Fields& fields) {
  return std::ranges::all_of(fields, [](const auto& field) { return trimmed(field).empty(); });
}
bool is_comment(std::string_view line) {
  return line.starts_with('#') || line.starts_with('%');
}

/// The first lines, without empty ones and the comments before the numbers.
constexpr std::size_t sample_size = 64;
std::vector<std::string_view> first_lines(const TextFile& file) {
  std::vector<std::string_view> lines;
  for (LineReader reader(file.text); !reader.at_end() && lines.size() < sample_size;)
    if (const std::string_view line = reader.next();
        !trimmed(line).empty() && (!lines.empty() || !is_comment(line)))
      lines.push_back(line);
  return lines;
}

/// Whether a line can be one number with a decimal comma: "0,5", "12", "-3,25e-05".
bool may_be_one_number(std::string_view line) {
  line = trimmed(line);
  const std::size_t comma = line.find(',');
  const std::string_view whole = line.substr(0, comma);
  return whole.find_first_of(".eE") == whole.npos && line.find_first_of(" \t") == line.npos &&
         (comma == line.npos || (comma + 1 < line.size() && is_digit(line[comma + 1]))) &&
         number_with_comma(line);
}

/// Whether lines with commas are one column of numbers with decimal commas. Throws Error where they
/// may as well be two columns of whole numbers.
bool is_comma_column(const TextFile& file, std::span<const std::string_view> lines) {
  const bool header = !may_be_one_number(lines[0]) && lines.size() > 1 &&
                      !printed_number(trimmed(lines[0].substr(0, lines[0].find(','))));
  const auto body = lines.subspan(header ? 1 : 0);
  if (!std::ranges::all_of(body, may_be_one_number)) return false;
  const auto is_decimal = [](std::string_view line) {
    const std::size_t comma = line.find(',');
    return comma != line.npos && comma + 2 < line.size() && line[comma + 1] == '0';
  };
  if (header) return lines[0].find(',') == std::string_view::npos;
  if (std::ranges::any_of(body, is_decimal)) return true;
  if (body.size() == 1) return false;
  const std::string_view one = trimmed(*std::ranges::find_if(
      body, [](std::string_view line) { return line.find(',') != line.npos; }));
  fail("{0}: lines are like '{1}': two whole numbers, or one with a decimal comma? Write two as "
       "'{2}' (sed 's/,/, /' {4}), one as '{3}' (sed 's/,/./' {4})",
       shown(file.name), shown(one), shown(with_replaced(one, {{',', ", "}})),
       shown(with_replaced(one, {{',', "."}})), shown(shell_word(file.name)));
}

/// The separator that every line has, else one that a line has, else blanks.
char separator_of(std::span<const std::string_view> lines) {
  constexpr std::string_view separators = "\t;,";
  const auto has = [](char separator) {
    return [separator](std::string_view line) { return line.find(separator) != line.npos; };
  };
  for (const char separator : separators)
    if (std::ranges::all_of(lines, has(separator))) return separator;
  for (const char separator : separators.substr(1)) // tabs may be among other blanks
    if (std::ranges::any_of(lines, has(separator))) return separator;
  return ' ';
}

/// Whether words between blanks are numbers with decimal commas: "0,5 0,25".
bool is_commas_between_blanks(std::span<const std::string_view> lines) {
  return std::ranges::all_of(lines.subspan(lines.size() > 1 ? 1 : 0), [](std::string_view line) {
    const std::vector<std::string_view> words = words_of(line, " \t");
    return words.size() > 1 && std::ranges::all_of(words, [](std::string_view word) {
             return !word.ends_with(',') && number_with_comma(word).has_value();
           });
  });
}

/// At least half of some fields are words.
template <class Range> bool are_words(const RowForm& form, const Range& fields) {
  const auto words =
      std::ranges::count_if(fields, [&](const std::string& field) { return form.is_words(field); });
  return words > 0 && words * 2 >= std::ranges::ssize(fields);
}

/// Finds header and labels in the first lines.
void find_words(const std::vector<Fields>& lines, RowForm& form) {
  const Fields& first = lines[0];
  const std::span<const std::string> named = std::span(first).subspan(1);
  const auto rest = std::span(lines).subspan(1);
  const auto is_labelled = [&](const Fields& fields) {
    return form.is_words(fields[0]) &&
           std::ranges::all_of(fields.begin() + 1, fields.end(),
                               [&](const std::string& field) { return form.is_number(field); });
  };
  const auto labelled = std::ranges::count_if(rest, is_labelled);
  form.labels = rest.empty() ? is_labelled(first) && first.size() > 1
                             : labelled > 0 && labelled * 2 >= std::ranges::ssize(rest);
  const bool corner = trimmed(first[0]).empty() && first.size() > 1;
  form.header = corner || (form.is_words(first[0]) && are_words(form, named)) ||
                (!rest.empty() && form.is_words(first[0]) && !form.labels) ||
                (rest.empty() && first.size() == 1 && form.is_words(first[0]));
  if (!form.header || rest.empty()) return;
  constexpr std::string_view names = "index id token tokens label labels position row name";
  form.labels = form.labels || corner || rest[0].size() == first.size() + 1 ||
                (first.size() > 1 && has_word(names, lowered(trimmed(first[0]))));
}

[[noreturn]] void refuse_nothing(const TextFile& file) {
  fail("{}: no numbers in it", shown(file.name));
}

RowForm form_of(const TextFile& file, bool token_lines) {
  const std::vector<std::string_view> lines = first_lines(file);
  RowForm form;
  if (lines.empty()) refuse_nothing(file);
  form.separator = separator_of(lines);
  if (form.separator == ',' && is_commas_between_blanks(lines))
    form.separator = ' ', form.commas = true;
  else if (form.separator == ',' && !token_lines && is_comma_column(file, lines))
    form.separator = ';', form.commas = true;

  std::vector<Fields> sample;
  Fields fields;
  for (FieldReader reader(file, form.separator);
       sample.size() < sample_size && reader.next(fields);)
    if (!is_blank(fields) && (!sample.empty() || !is_comment(fields[0]))) sample.push_back(fields);
  if (sample.empty()) refuse_nothing(file);
  const auto any_field = [&](const auto& is) {
    return std::ranges::any_of(sample,
                               [&](const Fields& line) { return std::ranges::any_of(line, is); });
  };
  if (form.separator != ',')
    form.commas = form.commas || any_field([](const std::string& field) {
                    return field.find(',') != field.npos && number_with_comma(trimmed(field));
                  });
  form.ends = std::ranges::all_of(
      sample, [](const Fields& line) { return line.size() > 1 && trimmed(line.back()).empty(); });
  if (form.ends)
    for (Fields& line : sample) line.pop_back();
  find_words(sample, form);
  return form;
}

/// Whether labels only count: 0, 1, 2 … or 1, 2, 3 …
bool is_counting(const Fields& labels) {
  for (std::size_t i = 0; i < labels.size(); ++i)
    if (trimmed(labels[i]) != fmt::format("{}", i) &&
        trimmed(labels[i]) != fmt::format("{}", i + 1))
      return false;
  return true;
}

std::string how(const RowForm& form, const Shape& shape, const PrintedNumbers& numbers) {
  const std::size_t width = shape.back(), lines = shape[shape.size() - 2];
  std::string text =
      fmt::format("read as {} of {} {}", counted(lines, "lines"), counted(width, "numbers"),
                  form.separator == ' '    ? "between blanks"
                  : form.separator == '\t' ? "between tabs"
                  : width == 1             ? "each"
                                           : fmt::format("between '{}'", form.separator));
  if (form.header) text += ", after a header";
  if (form.labels) text += ", after labels";
  if (form.commas) text += ", with decimal commas";
  if (shape.size() > 2) text += fmt::format(", in {} matrices between empty lines", shape[0]);
  if (const std::string digits = numbers.digits(); !digits.empty())
    text += fmt::format(", printed with {}", digits);
  return text;
}

/// Adds the labels of lines and columns.
void add_labels(Fields labels, Fields header, const Shape& shape, Contents& contents) {
  const std::size_t width = shape.back();
  if (header.size() == width + 1) header.erase(header.begin());
  if (is_counting(labels)) labels.clear();
  if (is_counting(header)) header.clear();
  // A header alone above a square is of the tokens on both sides.
  const bool square = shape.size() == 2 && shape[0] == width;
  if (labels.empty() && square) labels.swap(header);
  if (shape.size() == 2 && !labels.empty()) contents.labels.emplace_back("tokens", labels);
  if (!header.empty() && header != labels) contents.labels.emplace_back("column_names", header);
}

/// Adds texts of token numbers, one a line, or in a column one text.
void add_token_lines(PrintedNumbers& numbers, const std::vector<std::size_t>& widths,
                     Contents& contents) {
  const std::size_t longest = std::ranges::max(widths), count = numbers.count();
  contents.notes.emplace_back(longest == 1 ? "read as a text of token numbers, one a line"
                                           : fmt::format("read as token numbers of {}, one a line",
                                                         counted(widths.size(), "texts")));
  if (longest == 1 || widths.size() == 1) {
    contents.tensors.push_back(numbers.entry("ids", {count}));
    return;
  }
  std::vector<std::size_t> to;
  PrintedNumbers lengths;
  for (std::size_t line = 0; line < widths.size(); ++line) {
    for (std::size_t i = 0; i < widths[line]; ++i) to.push_back(line * longest + i);
    lengths.add(static_cast<double>(widths[line]));
  }
  numbers.arrange(to, widths.size() * longest);
  contents.tensors.push_back(numbers.entry("ids", {widths.size(), longest}));
  contents.tensors.push_back(lengths.entry("lengths", {widths.size()}));
}

/// Takes the lines of a file one after the other.
class RowReader {
public:
  RowReader(const TextFile& file, bool token_lines)
      : file_(file), token_lines_(token_lines), form_(form_of(file, token_lines)) {}

  void read(Contents& contents) {
    FieldReader reader(file_, form_.separator);
    bool in_block = false;
    for (Fields fields; reader.next(fields);) {
      if (is_blank(fields)) {
        in_block = false;
      } else if (begun_ || !is_comment(fields[0])) {
        if (form_.ends && trimmed(fields.back()).empty()) fields.pop_back();
        if (!std::exchange(begun_, true) && form_.header) {
          header_ = fields;
          continue;
        }
        take(fields, reader.line());
        if (!std::exchange(in_block, true)) blocks_.push_back(0);
        ++blocks_.back();
      }
    }
    finish(contents);
  }

private:
  void take(Fields& fields, std::size_t line) {
    if (token_lines_ && trimmed(fields.back()).empty()) fields.pop_back(); // "1, 2," ends a line
    const std::size_t first = form_.labels ? 1 : 0, count = fields.size() - first;
    if (blocks_.empty()) {
      width_ = count;
      if (!header_.empty() && header_.size() != width_ && header_.size() != width_ + first)
        file_.refuse(line, fmt::format("{} after a header of {}", counted(width_, "numbers"),
                                       header_.size()));
    }
    if (token_lines_)
      widths_.push_back(count);
    else if (count != width_)
      file_.refuse(line, fmt::format("{}, where the lines before have {}",
                                     counted(count, "numbers"), width_));
    for (std::size_t i = first; i < fields.size(); ++i) {
      const std::string_view word = trimmed(fields[i]);
      if (form_.commas ? numbers_.add_with_comma(word) : numbers_.add(word)) continue;
      if (word.empty())
        file_.refuse(line,
                     fmt::format("field {} is empty: write nan where a number is missing", i + 1));
      const bool point = form_.commas && word.find('.') != word.npos;
      file_.refuse(line, fmt::format("{} is not a number{}", quoted(word),
                                     point ? ", where others have decimal commas" : ""));
    }
    if (first > 0) labels_.push_back(fields[0]);
  }

  void finish(Contents& contents) {
    if (numbers_.count() == 0) { // a list of words
      Fields& words = labels_.empty() ? header_ : labels_;
      if (!labels_.empty() && !header_.empty()) words.insert(words.begin(), header_[0]);
      contents.labels.emplace_back(stem_of(file_.name), words);
      contents.notes.emplace_back(fmt::format("read as {}", counted(words.size(), "labels")));
      return;
    }
    if (token_lines_) return add_token_lines(numbers_, widths_, contents);
    for (const std::size_t lines : blocks_)
      if (lines != blocks_[0])
        fail("{}: matrices of {} and {} lines between empty lines: all have as many in one array",
             shown(file_.name), blocks_[0], lines);
    Shape shape{blocks_[0], width_};
    if (blocks_.size() > 1) shape.insert(shape.begin(), blocks_.size());
    contents.notes.emplace_back(how(form_, shape, numbers_));
    add_labels(std::move(labels_), std::move(header_), shape, contents);
    contents.tensors.push_back(numbers_.entry(stem_of(file_.name), shape));
  }

  const TextFile& file_;
  bool token_lines_, begun_ = false;
  RowForm form_;
  PrintedNumbers numbers_;
  Fields header_, labels_;
  std::vector<std::size_t> blocks_, widths_; ///< lines of each matrix; numbers of each text
  std::size_t width_ = 0;
};

} // namespace

void read_rows(const TextFile& file, bool token_lines, Contents& contents) {
  RowReader(file, token_lines).read(contents);
}

} // namespace mha::io
