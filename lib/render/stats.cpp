#include <mha/render/stats.hpp>

#include <mha/render/record.hpp>
#include <mha/render/table.hpp>
#include <mha/system/one_of.hpp>

#include <algorithm>
#include <cmath>

namespace mha::render {

namespace {

/// The columns of a table without a choice: the most telling first.
constexpr std::string_view telling[] = {
    "rows",           "previous",     "first",      "self",      "induction",
    "next",           "last",         "separator",  "distance",  "entropy_share",
    "result_share",   "one_key_rows", "uniformity", "duplicate", "diagonal",
    "effective_keys", "masked_rows",  "cond_q",     "cond_k",    "cond_v",
    "cond_o",         "stiefel_q",    "stiefel_k",  "stiefel_v", "stiefel_o"};
/// Scores of the few rows whose token was there before: the number of rows stands beside them.
constexpr std::string_view of_few_rows[] = {"induction", "duplicate"};

constexpr std::size_t digits = 3;
constexpr std::string_view missing = "–";

bool some_have(const std::vector<StatsRow>& rows, const Measure& measure) {
  return std::any_of(rows.begin(), rows.end(),
                     [&](const StatsRow& row) { return measure.of(row.head).has_value(); });
}

/// One column, its title above it.
struct MeasureColumn {
  std::string title;
  bool right = true;
  std::vector<std::string> cells;
  explicit MeasureColumn(std::string_view the_title, bool is_number = true)
      : title(the_title), right(is_number) {}
  std::size_t width() const {
    std::size_t widest = display_width(title);
    for (const std::string& cell : cells) widest = std::max(widest, display_width(cell));
    return widest + 2;
  }
};

/// A measure of every row, for eyes.
MeasureColumn column_of(const std::vector<StatsRow>& rows, const Measure& measure) {
  std::vector<double> values;
  for (const StatsRow& row : rows)
    if (const std::optional<double> value = measure.of(row.head)) values.push_back(*value);
  const ColumnFormat format(Tensor::of<double>({values.size()}, std::span<const double>(values)),
                            digits);
  MeasureColumn column(measure.name);
  for (const StatsRow& row : rows) {
    const std::optional<double> value = measure.of(row.head);
    std::string cell;
    if (!value)
      cell = missing;
    else if (measure.form == Measure::Form::boolean)
      cell = *value != 0 ? "yes" : "no";
    else if (measure.form == Measure::Form::count)
      cell = fmt::format("{:.0f}", *value);
    else
      format.append(cell, *value, 0);
    column.cells.push_back(std::move(cell));
  }
  return column;
}

std::size_t width_of(const std::vector<MeasureColumn>& columns) {
  std::size_t width = 0;
  for (const MeasureColumn& column : columns) width += column.width();
  return width - 2;
}

/// layer (where there are some), head, kind (where weights tell).
std::vector<MeasureColumn> naming_columns(const std::vector<StatsRow>& rows) {
  MeasureColumn layer("layer", false), head("head"), kind("kind", false);
  bool has_layer = false, has_kind = false;
  for (const auto& [id, measures] : rows) {
    layer.cells.push_back(visible(id));
    head.cells.push_back(std::to_string(measures.head));
    kind.cells.push_back(measures.kind.empty() ? std::string(missing) : measures.kind);
    has_layer |= !id.empty(), has_kind |= !measures.kind.empty();
  }
  std::vector<MeasureColumn> columns;
  if (has_layer) columns.push_back(std::move(layer));
  columns.push_back(std::move(head));
  if (has_kind) columns.push_back(std::move(kind));
  return columns;
}

std::string grid_text(const std::vector<MeasureColumn>& columns, std::size_t rows,
                      const TextStyle& text_style) {
  std::vector<Table::Column> headings;
  for (const MeasureColumn& column : columns) headings.push_back({column.title, column.right});
  Table grid(std::move(headings));
  for (std::size_t i = 0; i < rows; ++i) {
    std::vector<std::string> cells;
    for (const MeasureColumn& column : columns) cells.push_back(column.cells[i]);
    grid.add(std::move(cells));
  }
  return grid.text(text_style);
}

/// Lines as columns: as many heads side by side as fit, the names on the left each time.
std::string measures_down(const std::vector<MeasureColumn>& columns, std::size_t rows,
                          const TextStyle& text_style) {
  MeasureColumn names("", false);
  for (const MeasureColumn& column : columns) names.cells.push_back(column.title);
  std::string text;
  for (std::size_t first = 0; first < rows;) {
    std::vector<MeasureColumn> side{names};
    for (; first < rows; ++first) {
      MeasureColumn head("");
      for (const MeasureColumn& column : columns) head.cells.push_back(column.cells[first]);
      side.push_back(std::move(head));
      if (side.size() > 2 && width_of(side) > text_style.width) {
        side.pop_back();
        break;
      }
    }
    text += (text.empty() ? "" : "\n") + grid_text(side, columns.size(), text_style);
  }
  return text;
}

/// What CSV and JSON say of a head.
auto stats_record(const StatsColumns& columns) {
  return [&](Record& record, const StatsRow& row) {
    record.layer("layer", row.layer).count("head", row.head.head);
    record.words_or_null("kind", row.head.kind);
    for (const Measure* measure : columns) {
      const std::optional<double> value = measure->of(row.head);
      if (value && measure->form == Measure::Form::boolean)
        record.as_it_is(measure->name, *value != 0 ? "true" : "false");
      else if (value && measure->form == Measure::Form::count && std::isfinite(*value))
        record.as_it_is(measure->name, fmt::format("{:.0f}", *value));
      else
        record.number(measure->name, value);
    }
  };
}

} // namespace

std::string stats_table(const std::vector<StatsRow>& rows, bool above,
                        const TextStyle& text_style) {
  std::vector<MeasureColumn> columns = naming_columns(rows);
  std::size_t width = width_of(columns), shown = 0;
  StatsColumns chosen;
  for (std::string_view name : telling) {
    const Measure& plain = measure_named(name);
    StatsColumns together{above ? &above_uniform(plain) : &plain};
    if (is_one_of(name, of_few_rows)) together.push_back(rows_behind(plain));
    if (!some_have(rows, *together[0])) continue;
    std::size_t more = 0;
    for (const Measure* measure : together) more += column_of(rows, *measure).width();
    if (width + more > text_style.width) continue;
    width += more;
    chosen.insert(chosen.end(), together.begin(), together.end());
  }
  // In the order of the list, the rows behind a score after it.
  StatsColumns order;
  for (const Measure& measure : measures()) {
    const bool stands_beside = std::ranges::any_of(of_few_rows, [&](std::string_view few) {
      return rows_behind(measure_named(few)) == &measure;
    });
    if (!is_one_of(&measure, chosen) || stands_beside) continue;
    order.push_back(&measure);
    for (std::string_view few : of_few_rows)
      if (measure.name == few || measure.name == std::string(few) + "_above")
        order.push_back(rows_behind(measure_named(few)));
  }
  std::size_t known = 0;
  for (const Measure& measure : measures()) known += some_have(rows, measure);
  for (const Measure* measure : order) columns.push_back(column_of(rows, *measure)), ++shown;
  std::string text = grid_text(columns, rows.size(), text_style);
  if (known > shown)
    text += text_style.dim(typed(message("more measures: <all> shows them"))) + "\n";
  return text;
}

std::string stats_table(const std::vector<StatsRow>& rows, const StatsColumns& chosen,
                        const TextStyle& text_style) {
  std::vector<MeasureColumn> columns = naming_columns(rows);
  for (const Measure* measure : chosen) columns.push_back(column_of(rows, *measure));
  return width_of(columns) <= text_style.width ? grid_text(columns, rows.size(), text_style)
                                               : measures_down(columns, rows.size(), text_style);
}

std::string stats_text(const std::vector<StatsRow>& rows, const StatsColumns& columns,
                       std::string_view form, std::optional<std::size_t> precision) {
  return text_of_rows(rows, form, precision, stats_record(columns));
}

} // namespace mha::render
