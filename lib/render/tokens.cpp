#include <mha/render/tokens.hpp>

#include <mha/render/table.hpp>

#include <fmt/format.h>

#include <array>

namespace mha::render {

namespace {

constexpr std::size_t most_buffered = std::size_t{1} << 16;

/// A token of a text.
struct TokenRow {
  std::size_t text = 0, position = 0;
  TokenPlace at;
};

Table tokens_table(const std::vector<TokenRow>& rows, const TokenNames& names,
                   std::string_view form) {
  using In = Table::In;
  using Row = TokenRow;
  const auto eyes = [](std::string title, bool right = false) {
    return Table::Column{.title = std::move(title), .right = right, .in = In::eyes};
  };
  ColumnsOf<Row> columns{
      {field_column("text"), [](const Row& row) { return Cell::count(row.text); }},
      {field_column("position"), [](const Row& row) { return Cell::count(row.position); }},
      {eyes("", true), [](const Row& row) { return Cell::count(row.position); }},
      {eyes("token"), [&](const Row& row) { return Cell::words(names.label(row.at.id)); }},
      {{.title = "id", .right = true},
       [](const Row& row) { return Cell::count(static_cast<std::size_t>(row.at.id)); }},
      {field_column("token"), [&](const Row& row) { return Cell::words(names.text(row.at.id)); }},
      {eyes("bytes"),
       [](const Row& row) {
         return row.at.begin == row.at.end ? Cell("–")
                                           : Cell(fmt::format("{}–{}", row.at.begin, row.at.end));
       }},
      {{.title = "piece", .shrinks = true},
       [&](const Row& row) {
         const Cell piece = Cell::words(names.piece(row.at.id));
         const bool same = names.piece(row.at.id) == names.label(row.at.id);
         return same ? piece.shown_as("") : piece;
       }},
      {field_column("begin"), [](const Row& row) { return Cell::count(row.at.begin); }},
      {field_column("end"), [](const Row& row) { return Cell::count(row.at.end); }}};
  return table_of(rows, std::move(columns), form);
}

void write_for_eyes(const std::vector<TokenList>& texts, const TokenNames& names,
                    std::string_view form, const TextStyle& text_style, const Sink& sink) {
  for (std::size_t t = 0; t < texts.size(); ++t) {
    std::vector<TokenRow> rows;
    for (std::size_t i = 0; i < texts[t].size(); ++i) rows.push_back({t, i, texts[t][i]});
    sink((t == 0 ? "" : "\n") + tokens_table(rows, names, form).as(form, text_style));
  }
}

/// Some rows at a time: the spellings of a long text take many times its bytes.
void write_lines(const std::vector<TokenList>& texts, const TokenNames& names,
                 std::string_view form, const Sink& sink) {
  constexpr std::size_t at_once = 1024;
  TableStream stream(form, std::nullopt);
  std::vector<TokenRow> rows;
  const auto write = [&] {
    sink(stream.add(tokens_table(rows, names, form)));
    rows.clear();
  };
  for (std::size_t t = 0; t < texts.size(); ++t)
    for (std::size_t i = 0; i < texts[t].size(); ++i) {
      rows.push_back({t, i, texts[t][i]});
      if (rows.size() == at_once) write();
    }
  if (!rows.empty() || !stream.is_begun()) write();
  sink(stream.finish());
}

void write_json(const std::vector<TokenList>& texts, const TokenNames& names, const Sink& sink) {
  JsonText json;
  const auto member = [&](std::string_view title, const TokenList& list, const auto& add) {
    json.key(title).list(list, [&](const TokenPlace& at) {
      add(at);
      if (json.size() >= most_buffered) sink(json.take());
    });
  };
  if (texts.size() != 1) json.open_list({"", "\n ", ""});
  for (const TokenList& list : texts)
    json.object([&] {
      member("ids", list, [&](const TokenPlace& at) { json.value(at.id); });
      member("tokens", list, [&](const TokenPlace& at) { json.value(names.text(at.id)); });
      member("pieces", list, [&](const TokenPlace& at) { json.value(names.piece(at.id)); });
      member("offsets", list, [&](const TokenPlace& at) {
        json.list(std::array{at.begin, at.end});
      });
    });
  if (texts.size() != 1) json.close();
  json.end_line();
  sink(json.take());
}

} // namespace

void write_tokens(const std::vector<TokenList>& texts, const TokenNames& names,
                  std::string_view form, const TextStyle& text_style, const Sink& sink) {
  if (form == "json")
    write_json(texts, names, sink);
  else if (is_for_eyes(form))
    write_for_eyes(texts, names, form, text_style, sink);
  else
    write_lines(texts, names, form, sink);
}

} // namespace mha::render
