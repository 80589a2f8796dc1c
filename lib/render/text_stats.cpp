#include <mha/render/text_stats.hpp>

#include <mha/render/json_text.hpp>
#include <mha/render/label.hpp>
#include <mha/render/text_table.hpp>

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

std::string deviation_name(const Measure& measure) {
  return std::string(measure.name) + "_sd";
}

/// The table with the first `columns` measures, for people to read.
TextTable first_columns(const std::vector<TextStatsRow>& rows, const TextStatsView& view,
                        std::size_t columns) {
  std::vector<TextTable::Column> titles;
  const TextStatsRow none;
  for (const NamedValue& cell : named_cells(none, view, numbers_of(none)))
    titles.push_back(
        {.title = std::string(cell.title), .right = cell.is_number, .names = cell.names_row});
  for (const Measure* measure : std::span(view.columns).first(columns)) {
    titles.push_back({std::string(measure->name), true});
    if (view.spread) titles.push_back({.title = "±", .right = true, .follows = true});
  }
  TextTable grid(std::move(titles));
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
                             const TextStyle& look) {
  const std::size_t known = view.columns.size();
  std::size_t shown = known;
  while (view.usual && shown > 1 && first_columns(rows, view, shown).width() > look.width) --shown;
  std::string text = first_columns(rows, view, shown).text(look);
  if (shown < known)
    text +=
        look.dim(typed(message("{} more measures: <measures> names them", known - shown))) + "\n";
  return text;
}

std::string text_stats_csv(const std::vector<TextStatsRow>& rows, const TextStatsView& view,
                           char separator, bool titles, std::optional<std::size_t> precision) {
  std::string out;
  const auto line = [&](const std::vector<std::string>& cells) {
    out += separated_line(cells, separator);
  };
  std::vector<std::string> cells;
  if (titles) {
    const TextStatsRow none;
    for (const NamedValue& cell : named_cells(none, view, numbers_of(none)))
      cells.emplace_back(cell.title);
    for (const Measure* measure : view.columns) {
      cells.emplace_back(measure->name);
      if (view.spread) cells.push_back(deviation_name(*measure));
    }
    line(cells);
  }
  for (const TextStatsRow& row : rows) {
    cells.clear();
    const std::vector<std::string> numbers = numbers_of(row);
    for (const NamedValue& cell : named_cells(row, view, numbers)) cells.emplace_back(cell.cell);
    for (const MeanSpread& value : row.values) {
      cells.push_back(exact(value.mean(), Dialect::csv, precision));
      if (view.spread) cells.push_back(exact(value.deviation(), Dialect::csv, precision));
    }
    line(cells);
  }
  return out;
}

std::string text_stats_object(const TextStatsRow& row, const TextStatsView& view,
                              std::optional<std::size_t> precision) {
  JsonText json(precision);
  json.object([&] {
    const std::vector<std::string> numbers = numbers_of(row);
    for (const NamedValue& cell : named_cells(row, view, numbers)) {
      json.key(cell.title);
      if (cell.title == "layer")
        json.layer(cell.cell);
      else if (cell.title == "kind")
        json.words_or_null(cell.cell);
      else
        cell.is_number ? json.as_it_is(cell.cell) : json.value(cell.cell);
    }
    for (std::size_t i = 0; i < view.columns.size(); ++i) {
      json.key(view.columns[i]->name).value_or_null(row.values[i].mean());
      if (view.spread)
        json.key(deviation_name(*view.columns[i])).value_or_null(row.values[i].deviation());
    }
  });
  return json.take();
}

std::string activations_table(const std::vector<Activation>& list, const TextStyle& look) {
  TextTable grid(
      {{"‖head_result‖", true}, {"text", true}, {"position", true}, {"token"}, {"", false, true}});
  for (const Activation& one : list)
    grid.add({rounded(one.norm), std::to_string(one.text), std::to_string(one.position),
              readable(one.token),
              visible(one.before) + "«" + visible(one.token) + "»" + visible(one.after)});
  return grid.text(look);
}

std::string activations_text(const std::vector<Activation>& list, std::string_view form,
                             std::optional<std::size_t> precision) {
  if (form == "csv" || form == "tsv") {
    const char between = form == "tsv" ? '\t' : ',';
    std::string out =
        separated_line({"norm", "text", "position", "token", "before", "after"}, between);
    for (const Activation& one : list)
      out += separated_line({exact(one.norm, Dialect::csv, precision), std::to_string(one.text),
                             std::to_string(one.position), one.token, one.before, one.after},
                            between);
    return out;
  }
  JsonText json(precision);
  const auto add = [&](const Activation& one) {
    json.object([&] {
      json.member("norm", one.norm).member("text", one.text).member("position", one.position);
      json.member("token", one.token).member("before", one.before).member("after", one.after);
    });
  };
  if (form == "json") {
    json.list(list, add, on_lines);
    json.end_line();
  } else {
    for (const Activation& one : list) add(one), json.end_line();
  }
  return json.take();
}

} // namespace mha::render
