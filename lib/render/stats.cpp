#include <mha/render/stats.hpp>

#include <mha/render/label.hpp>

#include <mha/system/one_of.hpp>

#include <algorithm>
#include <cmath>

namespace mha::render {

namespace {

/// The measures of a table where none are chosen, the most informative first.
constexpr std::string_view default_measures[] = {
    "rows",           "previous",     "first",      "self",      "induction",
    "next",           "last",         "separator",  "distance",  "entropy_share",
    "result_share",   "one_key_rows", "uniformity", "duplicate", "diagonal",
    "effective_keys", "masked_rows",  "cond_q",     "cond_k",    "cond_v",
    "cond_o",         "stiefel_q",    "stiefel_k",  "stiefel_v", "stiefel_o"};
/// Scores of the few rows whose token occurred before. The number of rows is shown beside them.
constexpr std::string_view of_few_rows[] = {"induction", "duplicate"};

constexpr std::size_t digits = 3;
constexpr std::string_view missing = "–";

bool some_have(const std::vector<StatsRow>& rows, const Measure& measure) {
  return std::any_of(rows.begin(), rows.end(),
                     [&](const StatsRow& row) { return measure.of(row.head).has_value(); });
}

/// The columns layer (if there are numbers), head, and kind (if weights determine it).
ColumnsOf<StatsRow> naming_columns(const std::vector<StatsRow>& rows) {
  using In = Table::In;
  const auto has_layer = [](const StatsRow& row) { return !row.layer.empty(); };
  const auto has_kind = [](const StatsRow& row) { return !row.head.kind.empty(); };
  const auto shown_if = [](bool shown) { return shown ? In::all : In::fields; };
  return {{{.title = "layer", .in = shown_if(std::ranges::any_of(rows, has_layer))},
           [](const StatsRow& row) { return Cell::layer(row.layer); }},
          {{.title = "head", .right = true},
           [](const StatsRow& row) { return Cell::count(row.head.head); }},
          {{.title = "kind", .in = shown_if(std::ranges::any_of(rows, has_kind))},
           [](const StatsRow& row) {
             const std::string& kind = row.head.kind;
             return kind.empty() ? Cell().shown_as(std::string(missing))
                                 : Cell::words(kind).shown_as(visible(shown_kind(kind)));
           }}};
}

ColumnOf<StatsRow> column_of(const Measure& measure) {
  return {{.title = std::string(measure.name), .right = true, .together = digits},
          [&measure](const StatsRow& row) {
            const std::optional<double> value = measure.of(row.head);
            if (value && measure.form == Measure::Form::boolean) return Cell::truth(*value != 0);
            if (value && measure.form == Measure::Form::count && std::isfinite(*value))
              return Cell::count(static_cast<std::size_t>(std::lround(*value)));
            return Cell::number(value);
          }};
}

ColumnsOf<StatsRow> stats_columns(const std::vector<StatsRow>& rows, const StatsColumns& chosen) {
  ColumnsOf<StatsRow> columns = naming_columns(rows);
  for (const Measure* measure : chosen) columns.push_back(column_of(*measure));
  return columns;
}

/// Columns of the screen that a measure takes, with the gap beside it.
std::size_t width_of(const std::vector<StatsRow>& rows, const Measure& measure) {
  return table_of(rows, ColumnsOf<StatsRow>{column_of(measure)}).width() + 2;
}

/// Lines as columns: as many heads side by side as fit, the names on the left each time.
std::string measures_down(const Table& heads, const TextStyle& text_style) {
  std::string text;
  const std::vector<std::vector<std::string>> rows = heads.texts();
  std::vector<std::size_t> shown;
  for (std::size_t c = 0; c < heads.columns().size(); ++c)
    if (heads.columns()[c].is_shown()) shown.push_back(c);
  const auto side_by_side = [&](std::size_t first, std::size_t count) {
    std::vector<Table::Column> columns(1);
    columns.resize(1 + count, {.title = "", .right = true});
    Table side(std::move(columns));
    for (const std::size_t c : shown) {
      std::vector<Cell> cells{heads.columns()[c].title};
      for (std::size_t i = 0; i < count; ++i) cells.push_back(rows[first + i][c]);
      side.add(std::move(cells));
    }
    return side;
  };
  for (std::size_t first = 0; first < rows.size();) {
    std::size_t count = 1;
    while (first + count < rows.size() &&
           side_by_side(first, count + 1).width() <= text_style.width)
      ++count;
    text += (text.empty() ? "" : "\n") + side_by_side(first, count).text(text_style);
    first += count;
  }
  return text;
}

/// The default measures that fit the width, in the order of all measures, each score followed by
/// its number of rows.
StatsColumns default_columns(const std::vector<StatsRow>& rows, bool above, std::size_t room) {
  std::size_t width = table_of(rows, naming_columns(rows)).width();
  StatsColumns chosen;
  for (std::string_view name : default_measures) {
    const Measure& plain = measure_named(name);
    StatsColumns together{above ? &above_uniform(plain) : &plain};
    if (is_one_of(name, of_few_rows)) together.push_back(rows_counted_for(plain));
    if (!some_have(rows, *together[0])) continue;
    std::size_t more = 0;
    for (const Measure* measure : together) more += width_of(rows, *measure);
    if (width + more > room) continue;
    width += more;
    chosen.insert(chosen.end(), together.begin(), together.end());
  }
  StatsColumns order;
  for (const Measure& measure : measures()) {
    const bool is_row_count = std::ranges::any_of(of_few_rows, [&](std::string_view few) {
      return rows_counted_for(measure_named(few)) == &measure;
    });
    if (!is_one_of(&measure, chosen) || is_row_count) continue;
    order.push_back(&measure);
    for (std::string_view few : of_few_rows)
      if (measure.name == few || measure.name == std::string(few) + "_above")
        order.push_back(rows_counted_for(measure_named(few)));
  }
  return order;
}

} // namespace

Table stats_table(const std::vector<StatsRow>& rows, const StatsColumns& columns) {
  return table_of(rows, stats_columns(rows, columns));
}

std::string default_stats(const std::vector<StatsRow>& rows, bool above, std::string_view form,
                          const TextStyle& text_style) {
  const StatsColumns shown =
      default_columns(rows, above, form == "markdown" ? TextStyle{}.width : text_style.width);
  std::size_t known = 0;
  for (const Measure& measure : measures()) known += some_have(rows, measure);
  std::string text = stats_table(rows, shown).as(form, text_style);
  if (form == "table" && known > shown.size())
    text += text_style.dim(typed(message("more measures: <measures> all shows them"))) + "\n";
  return text;
}

std::string chosen_stats(const std::vector<StatsRow>& rows, const StatsColumns& chosen,
                         const TextStyle& text_style) {
  const Table table = stats_table(rows, chosen);
  return table.width() <= text_style.width ? table.text(text_style)
                                           : measures_down(table, text_style);
}

Table experts_table(const std::vector<ExpertRows>& layers) {
  struct Row {
    const ExpertRows& layer;
    const ExpertMeasures& expert;
  };
  std::vector<Row> rows;
  for (const ExpertRows& layer : layers)
    for (const ExpertMeasures& expert : layer.of.experts) rows.push_back({layer, expert});
  const auto number = [](std::string title, double ExpertMeasures::*of) {
    return ColumnOf<Row>{{.title = std::move(title), .right = true},
                         [of](const Row& row) { return Cell::number(row.expert.*of); }};
  };
  Table table = table_of(
      rows,
      ColumnsOf<Row>{{{.title = "layer", .right = true, .names = true},
                      [](const Row& row) { return Cell::layer(row.layer.layer); }},
                     {{.title = "expert", .right = true, .names = true},
                      [](const Row& row) { return Cell::count(row.expert.expert); }},
                     {{.title = "tokens", .right = true},
                      [](const Row& row) { return Cell::count(row.expert.tokens); }},
                     number("load", &ExpertMeasures::load),
                     number("share", &ExpertMeasures::share),
                     number("weight", &ExpertMeasures::weight),
                     number("score", &ExpertMeasures::score),
                     {field_column("router_entropy"),
                      [](const Row& row) { return Cell::number(row.layer.of.router_entropy); }},
                     {{.title = "top_tokens", .shrinks = true}, [](const Row& row) {
                        std::string shown;
                        for (const std::string& token : row.expert.top_tokens)
                          shown += (shown.empty() ? "" : " ") + readable(token);
                        return Cell::list(row.expert.top_tokens).shown_as(shown);
                      }}});
  for (const ExpertRows& layer : layers)
    table.note(fmt::format("{}router entropy {:.2f} bits of {:.2f}, {}",
                           layer.layer.empty() ? "" : fmt::format("layer {}: ", layer.layer),
                           layer.of.router_entropy,
                           std::log2(static_cast<double>(layer.of.experts.size())),
                           counted(layer.of.tokens, "tokens")));
  return table;
}

} // namespace mha::render
