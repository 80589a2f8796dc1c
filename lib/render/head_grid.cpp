#include <mha/render/head_grid.hpp>

#include <mha/render/map_layout.hpp>
#include <mha/system/error.hpp>
#include <mha/system/one_of.hpp>
#include <mha/system/parse.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <set>

namespace mha::render {

namespace {

/// The labels as numbers, if all are and they ascend: between such, ticks may leave some out.
std::optional<std::vector<std::size_t>> ascending_numbers(const std::vector<std::string>& labels) {
  std::vector<std::size_t> numbers;
  for (const std::string& label : labels) {
    const std::optional<std::size_t> number = parse_number<std::size_t>(label);
    if (!number || (!numbers.empty() && *number <= numbers.back())) return std::nullopt;
    numbers.push_back(*number);
  }
  return numbers;
}

MapAxis map_axis(const GridAxis& axis) {
  MapAxis to;
  to.name = axis.name, to.marks = axis.marks;
  if (std::optional<std::vector<std::size_t>> numbers = ascending_numbers(axis.labels);
      numbers && !axis.tokens) {
    to.positions = std::move(*numbers);
    return to;
  }
  to.positions.resize(axis.labels.size());
  std::iota(to.positions.begin(), to.positions.end(), std::size_t{0});
  to.labels = axis.labels;
  return to;
}

/// The means of cells of `down` × `along` numbers; NaN does not count.
MapPanel pooled(const MapPanel& panel, std::size_t down, std::size_t along) {
  const std::size_t rows = panel.map.rows, cols = panel.map.cols;
  MapPanel to = panel;
  to.rows.factor = down, to.cols.factor = along;
  PooledMap& map = to.map;
  map.rows = (rows + down - 1) / down, map.cols = (cols + along - 1) / along;
  map.values.assign(map.rows * map.cols, 0);
  map.masked.assign(map.rows * map.cols, 1);
  std::vector<std::size_t> counts(map.values.size());
  for (std::size_t i = 0; i < rows; ++i)
    for (std::size_t j = 0; j < cols; ++j) {
      if (panel.map.is_masked(i, j)) continue;
      const std::size_t cell = i / down * map.cols + j / along;
      map.values[cell] += panel.map.value(i, j), map.masked[cell] = 0, ++counts[cell];
    }
  for (std::size_t i = 0; i < counts.size(); ++i)
    map.values[i] = counts[i] > 0 ? map.values[i] / static_cast<double>(counts[i])
                                  : std::numeric_limits<double>::quiet_NaN();
  return to;
}

MapPicture grid_picture(const std::string& title, const std::vector<MapPanel>& panels,
                        const GridLook& how, std::size_t most_rows, std::size_t most_cols) {
  MapPicture picture;
  picture.title = title, picture.masked = how.none, picture.figure = how.figure;
  picture.columns = how.columns > 0 ? how.columns : grid_columns(panels.size(), panels.size());
  CellRange range = how.others;
  for (const MapPanel& panel : panels) {
    const auto factor = [](std::size_t count, std::size_t most) {
      return (count + most - 1) / std::max<std::size_t>(most, 1);
    };
    picture.panels.push_back(pooled(panel,
                                    std::max<std::size_t>(factor(panel.map.rows, most_rows), 1),
                                    std::max<std::size_t>(factor(panel.map.cols, most_cols), 1)));
    range.add(picture.panels.back().map);
  }
  // The colours of these stages: scaled has a scale symmetric around 0, weights one from 0.
  picture.styles = {style_for(range.low < 0 ? Stage::scaled : Stage::weights, how.colors, range)};
  return picture;
}

/// No limit on cells. Half of the largest number, so that count + limit does not overflow.
constexpr std::size_t every_cell = std::numeric_limits<std::size_t>::max() / 2;

/// Every cell, with labels that our own font has.
MapPicture drawn_picture(const std::string& title, const std::vector<MapPanel>& panels,
                         const GridLook& how) {
  MapPicture picture = grid_picture(title, panels, how, every_cell, every_cell);
  number_undrawn(picture);
  return picture;
}

} // namespace

MapPanel panel_of(std::string title, const GridAxis& rows, const GridAxis& cols,
                  std::vector<double> values) {
  MapPanel panel;
  panel.title = std::move(title);
  panel.rows = map_axis(rows), panel.cols = map_axis(cols);
  panel.map.rows = rows.labels.size(), panel.map.cols = cols.labels.size();
  for (const double value : values) panel.map.masked.push_back(std::isnan(value) ? 1 : 0);
  panel.map.values = std::move(values);
  return panel;
}

MapPanel grid_of(std::string title, const std::vector<GridHead>& heads) {
  GridAxis rows{"layer", {}}, cols{"head", {}};
  std::set<std::size_t> columns;
  for (const GridHead& one : heads) {
    add_once(rows.labels, one.layer);
    columns.insert(one.head);
  }
  for (const std::size_t head : columns) cols.labels.push_back(std::to_string(head));
  std::vector<double> values(rows.labels.size() * columns.size(),
                             std::numeric_limits<double>::quiet_NaN());
  for (const GridHead& one : heads) {
    const auto row = static_cast<std::size_t>(std::ranges::find(rows.labels, one.layer) -
                                              rows.labels.begin()),
               col =
                   static_cast<std::size_t>(std::distance(columns.begin(), columns.find(one.head)));
    if (one.value) values[row * columns.size() + col] = *one.value;
  }
  return panel_of(std::move(title), rows, cols, std::move(values));
}

CellRange range_of(const std::vector<MapPanel>& panels) {
  CellRange range;
  for (const MapPanel& panel : panels) range.add(panel.map);
  return range;
}

std::string grid_text(const std::string& title, const std::vector<MapPanel>& panels,
                      const GridLook& how, const TextStyle& text_style) {
  if (panels.empty()) fail("a grid without a number");
  MapTextNeeds needs;
  needs.panels = panels.size();
  needs.columns = how.columns > 0 ? std::min(how.columns, panels.size()) : panels.size();
  needs.rows = panels[0].rows, needs.cols = panels[0].cols;
  for (const MapPanel& panel : panels)
    needs.title = std::max(needs.title, display_width(panel.title));
  const MapText text = fit_text(needs, text_style);
  MapPicture picture = grid_picture(title, panels, how, text.rows, text.cols);
  picture.columns = needs.columns;
  return map_text(picture, text, text_style);
}

std::string grid_png(const std::string& title, const std::vector<MapPanel>& panels,
                     const GridLook& how) {
  return map_png(drawn_picture(title, panels, how));
}

std::string grid_svg(const std::string& title, const std::vector<MapPanel>& panels,
                     const GridLook& how) {
  return map_svg(grid_picture(title, panels, how, every_cell, every_cell));
}

std::string grid_pdf(const std::string& title, const std::vector<MapPanel>& panels,
                     const GridLook& how) {
  return map_pdf(drawn_picture(title, panels, how));
}

} // namespace mha::render
