#pragma once
// Rows of a result: what stands under each name, as a line of CSV or an object of JSON.

#include <mha/render/json_text.hpp>
#include <mha/render/numbers.hpp>
#include <mha/tensor/tensor.hpp>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace mha::render {

/// One row that is written: the titles of CSV, the cells below them, or the members of an object.
class Record {
public:
  /// The titles, or the cells with so many significant digits.
  Record(std::vector<std::string>& cells, bool titles, std::optional<std::size_t> precision)
      : cells_(&cells), titles_(titles), precision_(precision) {}
  /// Members of the object that is open.
  explicit Record(JsonText& json) : json_(&json) {}
  /// For what JSON alone has; null where the row is a line of CSV.
  JsonText* json() const { return json_; }

  ///@{
  /// A column; what is not there is empty, or null.
  Record& words(std::string_view name, std::string_view words);
  Record& words_or_null(std::string_view name, std::string_view words);
  Record& layer(std::string_view name, std::string_view id);
  Record& count(std::string_view name, const std::optional<std::size_t>& count);
  Record& number(std::string_view name, const std::optional<double>& number);
  Record& shape(std::string_view name, const Shape& shape);       ///< "4x33x16", or a list
  Record& as_it_is(std::string_view name, std::string_view text); ///< a number or a truth value
  ///@}

private:
  template <class PutJson>
  Record& put(std::string_view name, std::string_view cell, const PutJson& put_json);

  JsonText* json_ = nullptr;
  std::vector<std::string>* cells_ = nullptr;
  bool titles_ = false;
  std::optional<std::size_t> precision_;
};

/// Lines of csv or tsv: `put(Record&, row)` says what a row has.
template <class Row, class Put> std::string lines_of_rows(const std::vector<Row>& rows,
                                                          std::string_view form,
                                                          std::optional<std::size_t> precision,
                                                          const Put& put, bool with_titles = true) {
  std::string text;
  const auto add = [&](const Row& row, bool titles) {
    std::vector<std::string> cells;
    Record record(cells, titles, precision);
    put(record, row);
    text += separated_line(cells, separator_of(form));
  };
  if (with_titles) rows.empty() ? add(Row(), true) : add(rows.front(), true);
  for (const Row& row : rows) add(row, false);
  return text;
}

/// A row as an object.
template <class Row, class Put> void put_row(JsonText& json, const Row& row, const Put& put) {
  json.object([&] {
    Record record(json);
    put(record, row);
  });
}

/// Rows as csv, tsv, json (a list of objects, each after what `spread` says) or ndjson.
template <class Row, class Put> std::string text_of_rows(const std::vector<Row>& rows,
                                                         std::string_view form,
                                                         std::optional<std::size_t> precision,
                                                         const Put& put, Spread spread = on_lines) {
  if (form == "csv" || form == "tsv") return lines_of_rows(rows, form, precision, put);
  JsonText json(precision);
  const auto add = [&](const Row& row) { put_row(json, row, put); };
  if (form == "json") {
    json.list(rows, add, spread);
    json.end_line();
  } else {
    for (const Row& row : rows) add(row), json.end_line();
  }
  return json.take();
}

} // namespace mha::render
