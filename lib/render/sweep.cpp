#include <mha/render/sweep.hpp>

#include <mha/render/record.hpp>
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

std::string for_eyes(double value) {
  return fmt::format("{:.3f}", value == 0 ? 0.0 : value);
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

/// A stage's points of two axes.
std::string two_axes(const std::vector<SweepPoint>& points, const SweepView& view,
                     const TextStyle& text_style) {
  const SweepAxis down = view.over[0], across = view.over[1];
  std::size_t columns = 0;
  for (const SweepPoint& point : points)
    columns = std::max(columns, *index_along(point, across) + 1);
  std::vector<Table::Column> titles{{std::string(name_of(down)), true}};
  for (std::size_t j = 0; j < columns; ++j) titles.push_back({label_along(view, across, j), true});
  Table grid(std::move(titles));
  std::vector<std::vector<std::string>> rows;
  for (const SweepPoint& point : points) {
    const std::size_t row = *index_along(point, down), column = *index_along(point, across);
    if (rows.size() <= row) rows.resize(row + 1, std::vector<std::string>(columns + 1));
    rows[row][0] = label_along(view, down, row);
    rows[row][column + 1] = for_eyes(point.value);
  }
  for (std::vector<std::string>& row : rows) grid.add(std::move(row));
  return grid.text(text_style);
}

std::string as_lines(const std::vector<SweepPoint>& points, const SweepView& view,
                     const TextStyle& text_style) {
  std::vector<Table::Column> titles;
  for (const SweepAxis axis : view.over) titles.push_back({std::string(name_of(axis)), true});
  titles.push_back({"value", true});
  const bool spread = !points.empty() && points[0].spread;
  if (spread) titles.push_back({"spread", true});
  Table grid(std::move(titles));
  for (const SweepPoint& point : points) {
    std::vector<std::string> cells;
    for (const SweepAxis axis : view.over)
      cells.push_back(label_along(view, axis, *index_along(point, axis)));
    cells.push_back(for_eyes(point.value));
    if (spread) cells.push_back(for_eyes(*point.spread));
    grid.add(std::move(cells));
  }
  return grid.text(text_style);
}

/// What CSV and JSON say of a point: CSV its axes, JSON all that there are. The pairs are CSV's as
/// columns, which has no other place for them.
auto sweep_record(const SweepResult& sweep, const SweepView& view) {
  return [&](Record& record, const SweepPoint& point) {
    const std::vector<SweepAxis> every{SweepAxis::layer, SweepAxis::head, SweepAxis::query,
                                       SweepAxis::key};
    record.words("stage", view.stages[point.stage]);
    for (const SweepAxis axis : record.json() ? every : view.over)
      record.count(name_of(axis), index_along(point, axis));
    record.number("value", point.value).number("spread", point.spread);
    if (!record.json())
      record.count("pairs", sweep.pairs)
          .count("without_difference", sweep.without_difference.size());
  };
}

} // namespace

std::string sweep_table(const SweepResult& sweep, const SweepView& view,
                        const TextStyle& text_style) {
  std::string text = heading(sweep, view, text_style);
  for (std::size_t s = 0; s < view.stages.size(); ++s) {
    std::vector<SweepPoint> points;
    std::ranges::copy_if(sweep.points, std::back_inserter(points),
                         [&](const SweepPoint& point) { return point.stage == s; });
    text += fmt::format("\n{}\n", view.stages[s]);
    text += view.over.size() == 2 ? two_axes(points, view, text_style)
                                  : as_lines(points, view, text_style);
  }
  return text;
}

std::string sweep_csv(const SweepResult& sweep, const SweepView& view, std::string_view form) {
  return lines_of_rows(sweep.points, form, view.precision, sweep_record(sweep, view));
}

std::string sweep_json(const SweepResult& sweep, const SweepView& view) {
  JsonText json(view.precision);
  json.open_object(indented);
  json.member("metric", view.metric).member("raw", view.raw);
  json.member("this", sweep.here).member("other", sweep.there);
  json.member("pairs", sweep.pairs).member("without_difference", sweep.without_difference.size());
  json.key("points").list(
      sweep.points,
      [&](const SweepPoint& point) { put_row(json, point, sweep_record(sweep, view)); },
      {"\n    ", "\n    ", "\n  "});
  json.close();
  json.end_line();
  return json.take();
}

} // namespace mha::render
