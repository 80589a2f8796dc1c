#include <mha/render/map_ticks.hpp>

#include <mha/render/font.hpp>
#include <mha/render/label.hpp>
#include <mha/render/map_layout.hpp>

#include <algorithm>
#include <cmath>

namespace mha::render {

double text_width(std::string_view text, double size) {
  return Font::instance().width(text, size);
}

std::size_t whole(double pixels) {
  return static_cast<std::size_t>(std::ceil(std::max(pixels, 0.0)));
}

void Ticks::measure() {
  for (const Tick& tick : list) longest = std::max(longest, text_width(tick.text, size));
}

namespace {

constexpr std::size_t longest_label = 14; ///< columns of a token

Ticks token_ticks(const MapAxis& axis, double cell) {
  Ticks ticks;
  ticks.tokens = true;
  ticks.size = std::clamp(cell - 1, smallest_label, largest_label);
  for (std::size_t i = 0; i < axis.labels.size(); ++i)
    ticks.list.push_back(
        {static_cast<double>(i) + 0.5, shortened(readable(axis.labels[i]), longest_label)});
  ticks.measure();
  return ticks;
}

/// `room`: pixels that a number takes along the axis.
Ticks number_ticks(const MapAxis& axis, double cell, double room) {
  Ticks ticks;
  const auto& positions = axis.positions;
  const auto factor = static_cast<double>(axis.factor);
  if (!axis.marks.empty()) {
    Ticks marks;
    for (const auto& [at, name] : axis.marks) {
      const double place = (static_cast<double>(at) + 0.5) / factor;
      if (marks.list.empty() || (place - marks.list.back().cell) * cell >= room)
        marks.list.push_back({place, name});
    }
    marks.measure();
    return marks;
  }
  const std::size_t step = round_step(whole(std::max(1.0, room / cell * factor)));
  bool run = true;
  for (std::size_t i = 1; i < positions.size(); ++i)
    run = run && positions[i] == positions[i - 1] + 1;
  for (std::size_t i = 0; i < positions.size(); ++i) {
    const bool shown = run ? positions[i] % step == 0 : i % step == 0;
    if (!shown) continue;
    const double place = (static_cast<double>(i) + 0.5) / factor;
    ticks.list.push_back({place, std::to_string(positions[i])});
  }
  ticks.measure();
  return ticks;
}

} // namespace

Ticks ticks_of(const MapAxis& axis, double cell, bool rows) {
  if (!axis.labels.empty() && axis.factor == 1 && cell >= smallest_label + 0.5)
    return token_ticks(axis, cell);
  const std::string last = axis.positions.empty() ? "0" : std::to_string(axis.positions.back());
  return number_ticks(axis, cell, rows ? tick_size * 2.4 : text_width(last, tick_size) + 12);
}

std::vector<BarTick> bar_ticks(const MapPicture& picture, std::size_t height) {
  if (picture.styles.size() > 1) return {{1, "each head's\u00a0largest"}, {0, "smallest"}};
  std::vector<BarTick> found;
  const MapStyle& style = picture.styles[0];
  const std::vector<double> list = ticks(style, std::clamp<std::size_t>(height / 28, 3, 8));
  const std::vector<std::string> labels = tick_texts(list, style);
  // A pointed end has its number, which takes the room of a tick beside it.
  const bool up = picture.has_above(), down = picture.has_below();
  const double room = 1.5 * tick_size / static_cast<double>(height);
  if (up) found.push_back({1, "≥ " + end_text(style.high)});
  if (down) found.push_back({0, "≤ " + end_text(style.low)});
  // The bar goes from the lowest number to the highest, also where the colours are symmetric.
  for (std::size_t i = 0; i < list.size(); ++i) {
    const double share = style.share_of(list[i]);
    if ((!up || share <= 1 - room) && (!down || share >= room)) found.push_back({share, labels[i]});
  }
  return found;
}

std::size_t number_undrawn(MapPicture& picture) {
  const Font& font = Font::instance();
  std::size_t most = 0;
  for (MapPanel& panel : picture.panels)
    for (MapAxis* const axis : {&panel.rows, &panel.cols}) {
      std::size_t count = 0;
      for (std::size_t i = 0; i < axis->labels.size(); ++i)
        if (!font.draws(readable(axis->labels[i])))
          axis->labels[i] = fmt::format("#{}", axis->positions[i]), ++count;
      most = std::max(most, count);
    }
  return most;
}

} // namespace mha::render
