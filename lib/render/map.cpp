#include <mha/render/map.hpp>

#include <mha/render/numbers.hpp>
#include <mha/render/value.hpp>
#include <mha/system/error.hpp>
#include <mha/system/one_of.hpp>

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

namespace mha::render {

namespace {

MapAxis axis_of(Side side) {
  return {std::string(name_of(side.axis)), std::move(side.positions), std::move(side.labels)};
}

PooledMap transposed(const PooledMap& map) {
  PooledMap to = map;
  std::swap(to.rows, to.cols);
  for (std::size_t row = 0; row < to.rows; ++row)
    for (std::size_t col = 0; col < to.cols; ++col) {
      to.values[row * to.cols + col] = map.values[col * map.cols + row];
      to.masked[row * to.cols + col] = map.masked[col * map.cols + row];
    }
  return to;
}

} // namespace

MapAxes axes_of(const Layer& layer, Stage stage, const Selection& selection) {
  Value value = make_value(layer, {}, stage, selection, {});
  return {axis_of(std::move(value.row)), axis_of(std::move(value.col))};
}

std::vector<MapPanel> make_panels(const Layer& layer, const std::string& layer_id, Stage stage,
                                  const Selection& selection, const Pool& pool) {
  Value value = make_value(layer, {}, stage, selection, {});
  MapAxes axes{axis_of(value.row), axis_of(value.col)};
  const bool columns = layer.settings.columns;
  axes.rows.factor = columns ? pool.key_factor() : pool.query_factor();
  axes.cols.factor = columns ? pool.query_factor() : pool.key_factor();
  std::vector<MapPanel> panels;
  for (PooledMap& map : pool.maps()) {
    if (!value.row.of_items.empty()) { // each item's own labels
      const auto at =
          std::find(value.batch.positions.begin(), value.batch.positions.end(), map.batch);
      const auto b = static_cast<std::size_t>(at - value.batch.positions.begin());
      axes.rows.labels = value.row.labels_of(b), axes.cols.labels = value.col.labels_of(b);
    }
    panels.push_back(
        {layer_id, columns ? transposed(map) : std::move(map), axes.rows, axes.cols, {}});
  }
  return panels;
}

double MapStyle::share_of(double value) const {
  if (scale == ColorScale::log) // neighbouring numbers may have one logarithm
    if (const double span = std::log(high) - std::log(low); span > 0)
      return (std::log(value) - std::log(low)) / span;
  if (const double span = high - low; std::isfinite(span)) return (value - low) / span;
  return (value / 2 - low / 2) / (high / 2 - low / 2);
}

double MapStyle::place(double value) const {
  if (std::isnan(value)) return value;
  const double clamped = std::clamp(value, low, high);
  if (scale == ColorScale::log || !colors->diverging) return share_of(clamped);
  // Zero is the middle, and both sides have the same scale.
  const double most = std::max(std::abs(low), std::abs(high));
  return 0.5 + clamped / most / 2;
}

double MapStyle::value_at(double share) const {
  if (scale == ColorScale::log) {
    if (const double ratio = high / low; std::isfinite(ratio)) return low * std::pow(ratio, share);
    return std::exp(std::lerp(std::log(low), std::log(high), share));
  }
  if (const double span = high - low; std::isfinite(span)) return low + share * span;
  return std::lerp(low, high, share);
}

void CellRange::add(const PooledMap& map) {
  for (std::size_t i = 0; i < map.values.size(); ++i) {
    const double value = map.values[i];
    if (map.masked[i] || !std::isfinite(value)) continue;
    low = any ? std::min(low, value) : value;
    high = any ? std::max(high, value) : value;
    any = true;
    if (value > 0 && (least_positive == 0 || value < least_positive)) least_positive = value;
  }
}

bool is_signed(Stage stage) {
  return stage != Stage::weights && stage != Stage::exp && stage != Stage::shifted;
}

Pooling default_pooling(Stage stage) {
  return stage == Stage::weights || stage == Stage::exp ? Pooling::max : Pooling::mean;
}

namespace {

/// The scale that was asked for, or the one that distinguishes the numbers: log for long maps of
/// weights that allow it.
ColorScale color_scale_for(Stage stage, const MapColors& colors, const CellRange& range) {
  if (colors.scale) return *colors.scale;
  const bool positive = stage == Stage::weights || stage == Stage::exp;
  const bool ends = colors.low.value_or(1) > 0 && colors.high.value_or(1) > 0;
  const bool fits = range.any && range.low >= 0 && range.least_positive > 0 && ends &&
                    (colors.map.empty() || !color_map_named(colors.map).diverging);
  return colors.is_long && positive && fits ? ColorScale::log : ColorScale::linear;
}

/// Weights reach down to 1e-38; the colours distinguish four decades below the largest.
constexpr double log_share = 1e-4;

MapStyle log_style(Stage stage, const MapColors& colors, const CellRange& range, MapStyle style) {
  if (style.colors->diverging)
    fail("<color_scale> log has no zero for the colour map diverging to turn at; choose viridis, "
         "magma or greys");
  if (range.any && range.low < 0)
    fail("<color_scale> log: {} has negative numbers, down to {}; a log scale needs positive ones",
         name_of(stage), rounded(range.low));
  const auto require_positive = [](const std::optional<double>& end, const Message& option) {
    if (end && *end <= 0)
      fail("<color_scale> log: {} is {}: a number above 0 expected", option, rounded(*end));
  };
  require_positive(colors.low, message("<vmin>"));
  require_positive(colors.high, message("<vmax>"));
  if (!range.any || range.least_positive == 0) {
    style.low = colors.low.value_or(colors.high.value_or(1) / 10);
    style.high = colors.high.value_or(style.low * 10);
    return style;
  }
  style.high =
      colors.high.value_or(colors.low ? std::max(range.high, *colors.low * 10) : range.high);
  // By default all four are shown, as on a page: otherwise the smallest weight would look like
  // none.
  const double least = colors.scale ? range.least_positive : 0;
  style.low = colors.low.value_or(std::max(least, style.high * log_share));
  if (style.low >= style.high && !colors.low) style.low = style.high / 10;
  return style;
}

/// Throws Error for a lower end above all numbers, which would leave one colour.
void require_seen(const MapColors& colors, const CellRange& range) {
  if (range.any && colors.low && !colors.high && *colors.low >= range.high)
    fail("<vmin> {}: no number is above it, the largest is {}; give a smaller one, or add <vmax>",
         rounded(*colors.low), rounded(range.high));
}

} // namespace

MapStyle style_for(Stage stage, const MapColors& colors, const CellRange& range) {
  MapStyle style;
  style.scale = color_scale_for(stage, colors, range);
  const bool log = style.scale == ColorScale::log;
  style.colors = &color_map_named(!colors.map.empty()        ? std::string_view(colors.map)
                                  : is_signed(stage) && !log ? "diverging"
                                                             : "viridis");
  if (colors.low && colors.high && *colors.low >= *colors.high)
    fail("<vmin> {} is not below <vmax> {}", rounded(*colors.low), rounded(*colors.high));
  require_seen(colors, range);
  if (log) return log_style(stage, colors, range, style);

  const bool positive = stage == Stage::weights || stage == Stage::exp;
  style.low = positive ? std::min(0.0, range.low) : range.low;
  style.high = stage == Stage::shifted ? std::max(0.0, range.high) : range.high;
  if (style.colors->diverging) {
    style.high = std::max(std::abs(style.low), std::abs(style.high));
    style.low = -style.high;
  }
  if (colors.low) style.low = *colors.low;
  if (colors.high) style.high = *colors.high;
  if (style.low >= style.high && colors.high)
    fail("<vmax> {}: the colours begin at {}; give a larger one, or add <vmin>",
         rounded(*colors.high), rounded(style.low));
  if (style.low >= style.high) { // one number everywhere
    constexpr double most = std::numeric_limits<double>::max();
    style.high = style.low + (style.low == 0 ? 1 : std::min(std::abs(style.low), most - style.low));
    if (style.low == style.high) style.low = style.high / 2;
    if (style.colors->diverging) style.low = -style.high;
  }
  return style;
}

bool MapPicture::has_masked() const {
  return std::any_of(panels.begin(), panels.end(),
                     [](const MapPanel& panel) { return is_one_of(1, panel.map.masked); });
}

namespace {

/// The share of a colour bar that each of 256 colours has. A number nearer to an end than that
/// would also look like the end on a longer bar.
constexpr double color_step = 1.0 / 256;

/// Whether a cell that has a number holds for the style of its panel.
template <class Holds> bool has_cell(const MapPicture& picture, const Holds& holds) {
  for (std::size_t p = 0; p < picture.panels.size(); ++p) {
    const PooledMap& map = picture.panels[p].map;
    for (std::size_t i = 0; i < map.values.size(); ++i)
      if (!map.masked[i] && holds(map.values[i], picture.style(p))) return true;
  }
  return false;
}

} // namespace

bool MapPicture::has_nan() const {
  return has_cell(*this, [](double value, const MapStyle&) { return std::isnan(value); });
}

bool MapPicture::has_below() const {
  return has_cell(*this, [](double value, const MapStyle& style) {
    return style.share_of(value) < -color_step;
  });
}

bool MapPicture::has_above() const {
  return has_cell(*this, [](double value, const MapStyle& style) {
    return style.share_of(value) > 1 + color_step;
  });
}

std::size_t MapPicture::cells() const {
  std::size_t count = 0;
  for (const MapPanel& panel : panels) count += panel.map.rows * panel.map.cols;
  return count;
}

std::size_t grid_columns(std::size_t panels, std::size_t heads) {
  if (panels > heads && heads > 1) return heads;
  if (panels <= 3) return std::max<std::size_t>(panels, 1);
  const double root = std::sqrt(static_cast<double>(panels));
  const auto least = static_cast<std::size_t>(std::ceil(root));
  for (std::size_t columns = least; static_cast<double>(columns) <= 2 * root; ++columns)
    if (panels % columns == 0) return columns;
  return least;
}

std::string panel_title(const MapPicture& picture, const MapPanel& panel) {
  if (!panel.title.empty()) return panel.title;
  std::string title;
  if (picture.several_layers && !panel.layer.empty())
    title += fmt::format("layer {} ", panel.layer);
  if (picture.several_batches) title += fmt::format("batch {} ", panel.map.batch);
  return title + fmt::format("head {}", panel.map.head);
}

std::string short_title(const MapPicture& picture, const MapPanel& panel) {
  if (!panel.title.empty()) return panel.title;
  std::string title;
  if (picture.several_layers && !panel.layer.empty()) title += fmt::format("L{} ", panel.layer);
  if (picture.several_batches) title += fmt::format("B{} ", panel.map.batch);
  return title + fmt::format("H{}", panel.map.head);
}

std::string end_text(double end) {
  std::string number = end == 0 ? "0" : rounded(end, 3);
  if (number.starts_with('-')) number.replace(0, 1, "−");
  return number;
}

std::string range_text(const MapStyle& style) {
  return end_text(style.low) + " to " + end_text(style.high);
}

std::string pooling_text(const MapPicture& picture, std::size_t rows, std::size_t cols) {
  if (rows == 1 && cols == 1) return {};
  const MapPanel& panel = picture.panels.front();
  const auto counted = [](std::size_t count, const std::string& name) {
    const std::string plural = name == "query" ? "queries" : name + "s";
    return fmt::format("{} {}", count, count == 1 ? name : plural);
  };
  return fmt::format("each cell: the {} of {} × {}",
                     picture.pooling == Pooling::mean ? "mean" : "largest",
                     counted(rows, panel.rows.name), counted(cols, panel.cols.name));
}

std::size_t round_step(std::size_t least) {
  for (std::size_t decade = 1;; decade *= 10)
    for (std::size_t step : {decade, 2 * decade, 5 * decade})
      if (step >= least) return step;
}

namespace {
constexpr double most_tick_steps = 1e9; ///< from zero to a tick
}

std::vector<double> ticks(const MapStyle& style, std::size_t count) {
  std::vector<double> list;
  const auto most = static_cast<double>(std::max<std::size_t>(count, 2));
  if (style.scale == ColorScale::log) {
    const int first = static_cast<int>(std::ceil(std::log10(style.low) - 1e-9)),
              last = static_cast<int>(std::floor(std::log10(style.high) + 1e-9));
    const int step = std::max(1, static_cast<int>(std::ceil((last - first + 1) / most)));
    for (int decade = last; decade >= first; decade -= step) list.push_back(std::pow(10.0, decade));
    std::reverse(list.begin(), list.end());
    if (list.size() < 2) list = {style.low, style.high};
    return list;
  }
  const double span = style.high - style.low, steps = most - 1;
  const double raw = std::isfinite(span) ? span / steps : style.high / steps - style.low / steps;
  const double decade = std::pow(10.0, std::floor(std::log10(raw)));
  double step = 10 * decade;
  for (double candidate : {1.0, 2.0, 2.5, 5.0})
    if (candidate * decade >= raw * 0.999) {
      step = candidate * decade;
      break;
    }
  // Beside numbers as large, such a step changes nothing.
  const double farthest = std::max(std::abs(style.low), std::abs(style.high)) / step;
  if (!std::isfinite(step) || !(farthest < most_tick_steps)) return {style.low, style.high};
  const double from = std::ceil(style.low / step - 1e-6), to = style.high / step + 1e-6;
  for (double i = from; i <= to; ++i) list.push_back(i * step + 0.0);
  return list;
}

namespace {

/// "3.2e-05", with a minus sign of the width of a digit's where it leads.
std::string exponent_text(double tick) {
  return tick == 0 ? "0" : fmt::format("{}{:.3g}", tick < 0 ? "−" : "", std::abs(tick));
}

/// "0.01", and "10⁻³" for the powers of ten beyond.
std::string power_text(double tick) {
  const double exponent = std::log10(tick);
  const int power = static_cast<int>(std::lround(exponent));
  if (std::abs(exponent - power) > 1e-9 || std::abs(power) < 3) return exponent_text(tick);
  constexpr std::array<std::string_view, 10> digits{"⁰", "¹", "²", "³", "⁴",
                                                    "⁵", "⁶", "⁷", "⁸", "⁹"};
  std::string text = power < 0 ? "10⁻" : "10";
  for (char digit : std::to_string(std::abs(power)))
    text += digits[static_cast<std::size_t>(digit - '0')];
  return text;
}

} // namespace

std::vector<std::string> tick_texts(const std::vector<double>& list, const MapStyle& style) {
  std::vector<std::string> texts;
  double most = 0;
  for (double tick : list) most = std::max(most, std::abs(tick));
  const bool plain = style.scale == ColorScale::linear && most < 1e5 && most >= 1e-3;
  if (!plain) {
    for (double tick : list)
      texts.push_back(style.scale == ColorScale::log ? power_text(tick) : exponent_text(tick));
    return texts;
  }
  for (int decimals = 0; decimals <= 6; ++decimals) {
    texts.clear();
    bool exact = true;
    for (double tick : list) {
      texts.push_back(fmt::format("{:.{}f}", tick, decimals));
      exact = exact && std::abs(std::stod(texts.back()) - tick) < most * 1e-4;
    }
    if (exact) break;
  }
  for (std::string& text : texts)
    if (text.starts_with('-')) text.replace(0, 1, "−");
  return texts;
}

} // namespace mha::render
