#include <mha/render/text_stats.hpp>

#include <mha/render/label.hpp>
#include <mha/render/record.hpp>
#include <mha/render/table.hpp>

#include <span>

namespace mha::render {

namespace {

/// The titles in front of the measures, and what stands below them.
struct NamedValue {
  std::string_view title, cell;
  bool is_number = true;
  bool names_row = true; ///< else it is how much stands behind the row
};

std::vector<NamedValue> named_cells(const TextStatsRow& row, const TextStatsView& view,
                                    const std::vector<std::string>& numbers) {
  std::vector<NamedValue> cells{{"layer", row.layer, false}, {"head", numbers[0]}};
  const bool of_query = view.rows == TextRows::position || view.rows == TextRows::token;
  if (!of_query) cells.push_back({"kind", row.kind, false});
  if (view.rows == TextRows::text) cells.push_back({"text", numbers[1]});
  if (view.rows == TextRows::position) cells.push_back({"position", numbers[1]});
  if (view.rows == TextRows::token) cells.push_back({"token", row.token, false});
  if (view.rows != TextRows::text)
    cells.push_back({view.rows == TextRows::token ? "queries" : "texts", numbers[2], true, false});
  return cells;
}
std::vector<std::string> numbers_of(const TextStatsRow& row) {
  return {std::to_string(row.head), std::to_string(row.number), std::to_string(row.count)};
}

/// What CSV and JSON say of a row.
auto text_stats_record(const TextStatsView& view) {
  return [&](Record& record, const TextStatsRow& row) {
    const std::vector<std::string> numbers = numbers_of(row);
    for (const NamedValue& cell : named_cells(row, view, numbers)) {
      if (cell.title == "layer")
        record.layer(cell.title, cell.cell);
      else if (cell.title == "kind")
        record.words_or_null(cell.title, cell.cell);
      else if (cell.is_number)
        record.as_it_is(cell.title, cell.cell);
      else
        record.words(cell.title, cell.cell);
    }
    for (std::size_t i = 0; i < view.columns.size(); ++i) {
      const MeanSpread value = i < row.values.size() ? row.values[i] : MeanSpread();
      record.number(view.columns[i]->name, value.mean());
      if (view.spread)
        record.number(fmt::format("{}_sd", view.columns[i]->name), value.deviation());
    }
  };
}

/// The table with the first `columns` measures, for people to read.
Table first_columns(const std::vector<TextStatsRow>& rows, const TextStatsView& view,
                        std::size_t columns) {
  std::vector<Table::Column> titles;
  const TextStatsRow none;
  for (const NamedValue& cell : named_cells(none, view, numbers_of(none)))
    titles.push_back(
        {.title = std::string(cell.title), .right = cell.is_number, .names = cell.names_row});
  for (const Measure* measure : std::span(view.columns).first(columns)) {
    titles.push_back({std::string(measure->name), true});
    if (view.spread) titles.push_back({.title = "±", .right = true, .follows = true});
  }
  Table grid(std::move(titles));
  const auto for_eyes = [](const std::optional<double>& value) {
    return value ? rounded(*value, 4) : std::string("–");
  };
  for (const TextStatsRow& row : rows) {
    std::vector<std::string> cells;
    const std::vector<std::string> numbers = numbers_of(row);
    for (const NamedValue& cell : named_cells(row, view, numbers))
      cells.push_back(cell.title == "token" ? readable(cell.cell) : visible(cell.cell));
    for (const MeanSpread& value : std::span(row.values).first(columns)) {
      cells.push_back(for_eyes(value.mean()));
      if (view.spread) cells.push_back(for_eyes(value.deviation()));
    }
    grid.add(std::move(cells));
  }
  return grid;
}

} // namespace

std::string text_stats_table(const std::vector<TextStatsRow>& rows, const TextStatsView& view,
                             const TextStyle& text_style) {
  const std::size_t known = view.columns.size();
  std::size_t shown = known;
  while (view.usual && shown > 1 && first_columns(rows, view, shown).width() > text_style.width)
    --shown;
  std::string text = first_columns(rows, view, shown).text(text_style);
  if (shown < known)
    text +=
        text_style.dim(typed(message("{} more measures: <measures> names them", known - shown))) +
        "\n";
  return text;
}

std::string text_stats_csv(const std::vector<TextStatsRow>& rows, const TextStatsView& view,
                           std::string_view form, bool titles,
                           std::optional<std::size_t> precision) {
  return lines_of_rows(rows, form, precision, text_stats_record(view), titles);
}

std::string text_stats_object(const TextStatsRow& row, const TextStatsView& view,
                              std::optional<std::size_t> precision) {
  JsonText json(precision);
  put_row(json, row, text_stats_record(view));
  return json.take();
}

std::string activations_table(const std::vector<Activation>& list, const TextStyle& text_style) {
  Table grid(
      {{"‖head_result‖", true}, {"text", true}, {"position", true}, {"token"}, {"", false, true}});
  for (const Activation& one : list)
    grid.add({rounded(one.norm), std::to_string(one.text), std::to_string(one.position),
              readable(one.token),
              visible(one.before) + "«" + visible(one.token) + "»" + visible(one.after)});
  return grid.text(text_style);
}

std::string activations_text(const std::vector<Activation>& list, std::string_view form,
                             std::optional<std::size_t> precision) {
  return text_of_rows(list, form, precision, [](Record& record, const Activation& one) {
    record.number("norm", one.norm).count("text", one.text).count("position", one.position);
    record.words("token", one.token).words("before", one.before).words("after", one.after);
  });
}

} // namespace mha::render
