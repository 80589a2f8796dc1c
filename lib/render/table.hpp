#pragma once
// A result as rows and columns, and the forms that it is written in.

#include <mha/render/json_text.hpp>
#include <mha/render/text.hpp>
#include <mha/tensor/tensor.hpp>

#include <array>
#include <functional>
#include <variant>

namespace mha::render {

/// The forms that a result with rows is written in, the one of a terminal first.
inline constexpr std::array<std::string_view, 6> result_forms{"table", "csv",    "tsv",
                                                              "json",  "ndjson", "markdown"};

/// Whether numbers are rounded for a reader there.
constexpr bool is_for_eyes(std::string_view form) {
  return form == "table" || form == "markdown";
}

/// Text as Markdown shows it: what would be markup there is escaped.
std::string markdown_text(std::string_view text);

/// A cell of a row: for programs a value, for readers a text.
class Cell {
public:
  /// Nothing: no text, an empty field, null.
  Cell() = default;
  ///@{
  /// Text that is shown unchanged (it may hold escapes for bold and dim).
  Cell(std::string text) : value_(text), text_(std::move(text)) {} // NOLINT
  Cell(std::string_view text) : Cell(std::string(text)) {}         // NOLINT
  Cell(const char* text) : Cell(std::string(text)) {}              // NOLINT
  ///@}
  ///@{
  /// Words from a file, whose control characters are made visible; of `or_none`, "" is nothing.
  static Cell words(std::string_view words);
  static Cell words_or_none(std::string_view words);
  ///@}
  /// A layer: its number where it is one, its name ("decoder.3.cross"), or nothing.
  static Cell layer(std::string_view id);
  static Cell count(const std::optional<std::size_t>& count);
  /// A number; none is "–" for readers.
  static Cell number(const std::optional<double>& number);
  static Cell truth(bool flag);
  /// "4 × 33", "4x33" in CSV, a list in JSON.
  static Cell shape(const Shape& shape);
  /// Words between blanks, a list in JSON.
  static Cell list(std::vector<std::string> words);
  /// A value that only JSON has: an object, a list of numbers. `put` is called when the table is
  /// written.
  static Cell json(std::function<void(JsonText&)> put);

  /// The same with another text for readers.
  Cell shown_as(std::string text) const;

  /// For readers; numbers are written by `eyes`.
  std::string text(const std::function<std::string(double)>& eyes) const;
  /// The number that it is, if it is one and has no text of its own.
  std::optional<double> shown_number() const;
  /// A field of CSV or TSV before it is quoted.
  std::string field(std::optional<std::size_t> precision) const;
  void put(JsonText& json) const;

private:
  struct Layer {
    std::string id;
  };
  struct Nothing {};
  std::variant<Nothing, std::string, Layer, std::size_t, std::optional<double>, bool, Shape,
               std::vector<std::string>, std::function<void(JsonText&)>>
      value_;
  std::optional<std::string> text_;
};

/// Rows of cells below titles. For readers they are aligned by display width.
class Table {
public:
  /// The forms that have a column. all: every form; eyes: the table and Markdown; fields: CSV, TSV
  /// and JSON; lines: CSV and TSV; json: JSON alone; none: no form.
  enum class In : std::uint8_t { all, eyes, fields, lines, json, none };
  struct Column {
    std::string title = {}; ///< for readers
    bool right = false;     ///< right-aligned: numbers
    bool shrinks = false;   ///< cut short where the lines would not fit
    bool dim = false;
    bool wraps = false;   ///< where it shrinks, its text continues below instead of being cut
    bool follows = false; ///< belongs to the column before it, and stays with it
    bool names = false;   ///< identifies a row: repeated in each part of a table that is split
    bool spare = false;   ///< shows again what another column has: left out where the lines would
                          ///< not fit
    In in = In::all;
    std::string field = {}; ///< its name in CSV and JSON; "": the title
    /// The text of a number for readers; none: with four digits.
    std::function<std::string(double)> eyes = {};
    /// Significant digits of the largest number, where all of the column are shown alike.
    std::size_t together = 0;
    const std::string& name() const { return field.empty() ? title : field; }
    bool is_shown() const { return in == In::all || in == In::eyes; }
    bool is_line() const { return in == In::all || in == In::fields || in == In::lines; }
    bool is_member() const { return in == In::all || in == In::fields || in == In::json; }
    bool is_in(std::string_view form) const;
  };
  explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}
  void add(std::vector<Cell> cells) { rows_.push_back(std::move(cells)); }
  /// A sentence below the rows, for readers.
  void note(std::string sentence) { notes_.push_back(std::move(sentence)); }
  bool empty() const { return rows_.empty(); }
  std::size_t size() const { return rows_.size(); }
  const std::vector<Column>& columns() const { return columns_; }

  /// Columns of the screen that a line takes where nothing is left out, cut or wrapped.
  std::size_t width() const;
  /// Lines that fit `text_style`: columns shrink, then spare ones go, then the table is split into
  /// parts below each other, each led by the columns that name a row (else by the first); where
  /// such a part does not fit, its columns have one blank between them, and names shrink.
  /// Titles are bold.
  std::string text(const TextStyle& text_style, std::size_t indent = 0) const;
  /// The columns for readers as a table of Markdown, of any width.
  std::string markdown() const;
  /// Lines of csv or tsv; without the line of titles where that is written already. Numbers have
  /// `precision` significant digits, or as many as read back to the same value.
  std::string lines(std::string_view form, std::optional<std::size_t> precision = {},
                    bool titles = true) const;
  /// Adds the members of a row to the object that is open, from the column `first` on.
  void put_members(JsonText& json, std::size_t row, std::size_t first = 0) const;
  /// Adds a list of objects, one a row.
  void put(JsonText& json, Spread spread) const;
  /// One of `result_forms`; JSON is a list of objects.
  std::string as(std::string_view form, const TextStyle& text_style,
                 std::optional<std::size_t> precision = {}, Spread spread = on_lines) const;

  /// The cells for readers, row by row; "" where a column is not for readers.
  std::vector<std::vector<std::string>> texts() const;

private:
  std::vector<Column> columns_;
  std::vector<std::vector<Cell>> rows_;
  std::vector<std::string> notes_;
};

/// Rows in a form for programs, written as they arrive: csv, tsv, json (a list of objects) or
/// ndjson.
class TableStream {
public:
  TableStream(std::string_view form, std::optional<std::size_t> precision, Spread spread = on_lines)
      : form_(form), precision_(precision), spread_(spread) {}
  /// Returns the text of these rows.
  std::string add(const Table& rows);
  /// Returns the end of the text.
  std::string finish();
  /// Whether a line of titles, or a row, was written.
  bool is_begun() const { return is_begun_; }
  /// Keeps in a state that is written, or takes from one that is read, whether rows were added.
  template <class State> void visit(State& state) { state.field(is_begun_).field(is_empty_); }

private:
  std::string form_;
  std::optional<std::size_t> precision_;
  Spread spread_;
  bool is_begun_ = false, is_empty_ = true;
};

/// A column for programs alone.
inline Table::Column field_column(std::string name) {
  return {.title = std::move(name), .in = Table::In::fields};
}

/// A column, and the function that gives its cell of a row.
template <class Row> struct ColumnOf : Table::Column { std::function<Cell(const Row&)> get; };
template <class Row> using ColumnsOf = std::vector<ColumnOf<Row>>;

/// The table of rows; without the columns that `form` does not have, where it is known.
template <class Rows, class Row>
Table table_of(const Rows& rows, ColumnsOf<Row> columns, std::string_view form = {}) {
  if (!form.empty())
    std::erase_if(columns, [&](const ColumnOf<Row>& column) { return !column.is_in(form); });
  Table table(std::vector<Table::Column>(columns.begin(), columns.end()));
  for (const Row& row : rows) {
    std::vector<Cell> cells;
    cells.reserve(columns.size());
    for (const ColumnOf<Row>& column : columns) cells.push_back(column.get(row));
    table.add(std::move(cells));
  }
  return table;
}

} // namespace mha::render
