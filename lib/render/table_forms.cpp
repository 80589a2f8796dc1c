// The forms of a table for files and programs: CSV, TSV, JSON, Markdown.

#include <mha/render/numbers.hpp>
#include <mha/render/table.hpp>

#include <fmt/format.h>

#include <utility>

namespace mha::render {

std::string markdown_text(std::string_view text) {
  std::string escaped;
  for (const char c : text) switch (c) {
    case '\n':
      escaped += "<br>";
      break;
    case '<':
      escaped += "&lt;";
      break;
    case '&':
      escaped += "&amp;";
      break;
    case '|':
    case '\\':
    case '*':
    case '`':
      escaped += '\\';
      [[fallthrough]];
    default:
      escaped += c;
    }
  return escaped;
}

bool Table::Column::is_in(std::string_view form) const {
  if (is_for_eyes(form)) return is_shown();
  return form == "csv" || form == "tsv" ? is_line() : is_member();
}

std::string Table::lines(std::string_view form, std::optional<std::size_t> precision,
                         bool titles) const {
  const char separator = separator_of(form);
  std::string text;
  const auto add = [&](const auto& field_of) {
    bool first = true;
    for (std::size_t c = 0; c < columns_.size(); ++c) {
      if (!columns_[c].is_line()) continue;
      if (!std::exchange(first, false)) text += separator;
      text += separated_field(field_of(c), separator);
    }
    text += '\n';
  };
  if (titles) add([&](std::size_t c) { return columns_[c].name(); });
  for (const std::vector<Cell>& row : rows_)
    add([&](std::size_t c) { return row[c].field(precision); });
  return text;
}

void Table::put_members(JsonText& json, std::size_t row, std::size_t first) const {
  for (std::size_t c = first; c < columns_.size(); ++c)
    if (columns_[c].is_member()) json.key(columns_[c].name()), rows_[row][c].put(json);
}

void Table::put(JsonText& json, Spread spread) const {
  json.open_list(spread);
  for (std::size_t row = 0; row < rows_.size(); ++row) json.object([&] { put_members(json, row); });
  json.close();
}

std::string Table::markdown() const {
  const std::vector<std::vector<std::string>> cells = texts();
  std::string text, rule;
  const auto add = [&](const auto& cell_of) {
    text += '|';
    for (std::size_t c = 0; c < columns_.size(); ++c)
      if (columns_[c].is_shown()) text += " " + markdown_text(cell_of(c)) + " |";
    text += '\n';
  };
  add([&](std::size_t c) { return columns_[c].title; });
  text += '|';
  for (const Column& column : columns_)
    if (column.is_shown()) text += column.right ? "---:|" : "---|";
  text += '\n';
  for (const std::vector<std::string>& row : cells) add([&](std::size_t c) { return row[c]; });
  for (const std::string& sentence : notes_) text += "\n" + markdown_text(sentence) + "\n";
  return text;
}

std::string Table::as(std::string_view form, const TextStyle& text_style,
                      std::optional<std::size_t> precision, Spread spread) const {
  if (form == "table") return text(text_style);
  if (form == "markdown") return markdown();
  TableStream stream(form, precision, spread);
  std::string text = stream.add(*this);
  return text + stream.finish();
}

std::string TableStream::add(const Table& rows) {
  const bool is_first = !std::exchange(is_begun_, true);
  if (form_ == "csv" || form_ == "tsv") return rows.lines(form_, precision_, is_first);
  JsonText json(precision_);
  std::string text;
  for (std::size_t row = 0; row < rows.size(); ++row) {
    json.object([&] { rows.put_members(json, row); });
    const bool opens = std::exchange(is_empty_, false);
    if (form_ == "json")
      text += opens ? fmt::format("[{}", spread_.first) : fmt::format(",{}", spread_.between);
    text += json.take();
    if (form_ == "ndjson") text += '\n';
  }
  return text;
}

std::string TableStream::finish() {
  if (form_ != "json") return "";
  return is_empty_ ? "[]\n" : fmt::format("{}]\n", spread_.last);
}

} // namespace mha::render
