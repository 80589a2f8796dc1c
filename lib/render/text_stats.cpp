#include <mha/render/stats.hpp>

#include <mha/render/label.hpp>
#include <mha/render/numbers.hpp>

namespace mha::render {

namespace {

/// The columns in front of the measures: what a row is about, and how many texts or queries it is
/// based on.
ColumnsOf<TextStatsRow> text_naming_columns(TextRows rows) {
  using Row = TextStatsRow;
  const auto name = [](std::string title, bool right) {
    return Table::Column{.title = std::move(title), .right = right, .names = true};
  };
  const auto count = [](std::size_t Row::*of) {
    return [of](const Row& row) { return Cell::count(row.*of); };
  };
  ColumnsOf<Row> columns{
      {name("layer", false), [](const Row& row) { return Cell::layer(row.layer); }},
      {name("head", true), count(&Row::head)}};
  const bool of_query = rows == TextRows::position || rows == TextRows::token;
  if (!of_query)
    columns.push_back({name("kind", false), [](const Row& row) {
                         const Cell kind = Cell::words_or_none(row.kind);
                         return row.kind.empty() ? kind
                                                 : kind.shown_as(visible(shown_kind(row.kind)));
                       }});
  if (rows == TextRows::text) columns.push_back({name("text", true), count(&Row::number)});
  if (rows == TextRows::position) columns.push_back({name("position", true), count(&Row::number)});
  if (rows == TextRows::token)
    columns.push_back({name("token", false), [](const Row& row) {
                         return Cell::words(row.token).shown_as(readable(row.token));
                       }});
  if (rows != TextRows::text)
    columns.push_back({{.title = rows == TextRows::token ? "queries" : "texts", .right = true},
                       count(&Row::count)});
  return columns;
}

} // namespace

Table text_stats_table(const std::vector<TextStatsRow>& rows, const TextStatsView& view) {
  ColumnsOf<TextStatsRow> columns = text_naming_columns(view.rows);
  for (std::size_t i = 0; i < view.columns.size(); ++i) {
    const auto number = [i](std::optional<double> (MeanSpread::*of)() const) {
      return [i, of](const TextStatsRow& row) {
        const MeanSpread value = i < row.values.size() ? row.values[i] : MeanSpread();
        return Cell::number((value.*of)());
      };
    };
    const std::string name(view.columns[i]->name);
    columns.push_back({{.title = name, .right = true}, number(&MeanSpread::mean)});
    if (view.spread)
      columns.push_back({{.title = "±", .right = true, .follows = true, .field = name + "_sd"},
                         number(&MeanSpread::deviation)});
  }
  return table_of(rows, columns);
}

std::string text_stats_for_eyes(const std::vector<TextStatsRow>& rows, TextStatsView view,
                                std::string_view form, const TextStyle& text_style) {
  const std::size_t known = view.columns.size();
  Table table = text_stats_table(rows, view);
  while (form == "table" && view.usual && view.columns.size() > 1 &&
         table.width() > text_style.width) {
    view.columns.pop_back();
    table = text_stats_table(rows, view);
  }
  std::string text = table.as(form, text_style);
  if (const std::size_t left = known - view.columns.size(); left > 0)
    text += text_style.dim(typed(message("{} more measures: <measures> names them", left))) + "\n";
  return text;
}

Table activations_table(const std::vector<Activation>& list) {
  using In = Table::In;
  const auto words = [](std::string Activation::*of) {
    return [of](const Activation& one) { return Cell::words(one.*of); };
  };
  return table_of(list,
                  ColumnsOf<Activation>{
                      {{.title = "‖head_result‖", .right = true, .field = "norm"},
                       [](const Activation& one) { return Cell::number(one.norm); }},
                      {{.title = "text", .right = true},
                       [](const Activation& one) { return Cell::count(one.text); }},
                      {{.title = "position", .right = true},
                       [](const Activation& one) { return Cell::count(one.position); }},
                      {{.title = "token"},
                       [](const Activation& one) {
                         return Cell::words(one.token).shown_as(readable(one.token));
                       }},
                      {field_column("before"), words(&Activation::before)},
                      {field_column("after"), words(&Activation::after)},
                      {{.title = "", .shrinks = true, .in = In::eyes}, [](const Activation& one) {
                         return Cell(visible(one.before) + "«" + visible(one.token) + "»" +
                                     visible(one.after));
                       }}});
}

} // namespace mha::render
