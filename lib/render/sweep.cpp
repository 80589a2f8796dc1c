#include <mha/render/studies.hpp>

#include <mha/render/numbers.hpp>
#include <mha/render/table.hpp>

#include <algorithm>

namespace mha::render {

namespace {

/// "3", or "3 ' king'" where the axis has tokens.
std::string label_along(const SweepView& view, SweepAxis axis, std::size_t index) {
  const bool of_tokens = axis == SweepAxis::query || axis == SweepAxis::key;
  return of_tokens && index < view.tokens.size() ? fmt::format("{} {}", index, view.tokens[index])
                                                 : fmt::format("{}", index);
}

std::string heading(const SweepResult& sweep, const SweepView& view, const TextStyle& text_style) {
  const std::string both = fmt::format("{} of this run {}, of the other {}{}", view.metric,
                                       rounded(sweep.here), rounded(sweep.there),
                                       view.raw ? "; each place: its value"
                                                : "; each place: 0 as this run, 1 as the other");
  std::string text = in_lines(both, text_style.width) + "\n";
  const std::size_t left_out = sweep.without_difference.size();
  if (sweep.pairs + left_out > 1)
    text += fmt::format("mean of {} pairs{}\n", sweep.pairs,
                        left_out > 0 ? fmt::format("; {} without a difference left out", left_out)
                                     : "");
  return text;
}

/// A stage's points of two axes: the first downwards, the second across.
Table two_axes(const std::vector<SweepPoint>& points, const SweepView& view) {
  const SweepAxis down = view.over[0], across = view.over[1];
  std::size_t columns = 0;
  for (const SweepPoint& point : points)
    columns = std::max(columns, *index_along(point, across) + 1);
  std::vector<Table::Column> titles{{std::string(name_of(down)), true}};
  for (std::size_t j = 0; j < columns; ++j) titles.push_back({label_along(view, across, j), true});
  Table grid(std::move(titles));
  std::vector<std::vector<Cell>> rows;
  for (const SweepPoint& point : points) {
    const std::size_t row = *index_along(point, down), column = *index_along(point, across);
    if (rows.size() <= row) rows.resize(row + 1, std::vector<Cell>(columns + 1));
    rows[row][0] = label_along(view, down, row);
    rows[row][column + 1] = fixed(point.value, 3);
  }
  for (std::vector<Cell>& row : rows) grid.add(std::move(row));
  return grid;
}

/// One line per point: for readers the axes with their tokens; CSV has the axes of the sweep, JSON
/// all axes. The pairs are columns of CSV, which has no other place for them.
Table points_table(const std::vector<SweepPoint>& points, const SweepResult& sweep,
                   const SweepView& view) {
  using In = Table::In;
  using Point = SweepPoint;
  ColumnsOf<Point> columns{{{.title = "stage", .in = In::fields}, [&view](const Point& point) {
                              return Cell::words(view.stages[point.stage]);
                            }}};
  const auto add_axis = [&](SweepAxis axis, In in) {
    columns.push_back({{.title = std::string(name_of(axis)), .right = true, .in = in},
                       [axis, in, &view](const Point& point) {
                         const std::optional<std::size_t> index = index_along(point, axis);
                         const Cell cell = Cell::count(index);
                         return in == In::eyes ? cell.shown_as(label_along(view, axis, *index))
                                               : cell;
                       }});
  };
  for (const SweepAxis axis : view.over) add_axis(axis, In::lines);
  for (const SweepAxis axis : {SweepAxis::layer, SweepAxis::head, SweepAxis::query, SweepAxis::key})
    add_axis(axis, In::json);
  for (const SweepAxis axis : view.over) add_axis(axis, In::eyes);
  const auto three_decimals = [](double number) { return fixed(number, 3); };
  const bool spread = !points.empty() && points[0].spread;
  columns.push_back({{.title = "value", .right = true, .eyes = three_decimals},
                     [](const Point& point) { return Cell::number(point.value); }});
  columns.push_back({{.title = "spread",
                      .right = true,
                      .in = spread ? In::all : In::fields,
                      .eyes = three_decimals},
                     [](const Point& point) { return Cell::number(point.spread); }});
  columns.push_back({{.title = "pairs", .in = In::lines},
                     [&sweep](const Point&) { return Cell::count(sweep.pairs); }});
  columns.push_back({{.title = "without_difference", .in = In::lines}, [&sweep](const Point&) {
                       return Cell::count(sweep.without_difference.size());
                     }});
  return table_of(points, columns);
}

} // namespace

std::string sweep_text(const SweepResult& sweep, const SweepView& view, std::string_view form,
                       const TextStyle& text_style) {
  if (form == "csv" || form == "tsv" || form == "ndjson")
    return points_table(sweep.points, sweep, view).as(form, text_style, view.precision);
  if (form == "json") {
    JsonText json(view.precision);
    json.open_object(indented);
    json.member("metric", view.metric).member("raw", view.raw);
    json.member("this", sweep.here).member("other", sweep.there);
    json.member("pairs", sweep.pairs).member("without_difference", sweep.without_difference.size());
    json.key("points");
    points_table(sweep.points, sweep, view).put(json, {"\n    ", "\n    ", "\n  "});
    json.close();
    json.end_line();
    return json.take();
  }
  const bool markdown = form == "markdown";
  std::string text = heading(sweep, view, markdown ? TextStyle{.width = SIZE_MAX} : text_style);
  if (markdown) text = markdown_text(text.substr(0, text.size() - 1)) + "\n";
  for (std::size_t s = 0; s < view.stages.size(); ++s) {
    std::vector<SweepPoint> points;
    std::ranges::copy_if(sweep.points, std::back_inserter(points),
                         [&](const SweepPoint& point) { return point.stage == s; });
    const Table table =
        view.over.size() == 2 ? two_axes(points, view) : points_table(points, sweep, view);
    text +=
        fmt::format("\n{}\n{}{}", view.stages[s], markdown ? "\n" : "", table.as(form, text_style));
  }
  return text;
}

} // namespace mha::render
