#include <mha/render/map_texts.hpp>

#include <mha/render/font.hpp>
#include <mha/render/label.hpp>
#include <mha/render/map_layout.hpp>

#include <fmt/format.h>

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

namespace {

constexpr std::size_t longest_title = 32; ///< columns: a layer's name may be anything

/// One way to write the titles.
struct TitleForm {
  bool brief = false;   ///< L1 H3
  bool beside = true;   ///< the colours' ends in the same line
  double smallest = 12; ///< letters may shrink to this
};

std::vector<std::string> title_lines(const MapPicture& picture, std::size_t panel,
                                     const TitleForm& form) {
  const MapPanel& one = picture.panels[panel];
  std::string title = visible(form.brief ? short_title(picture, one) : panel_title(picture, one));
  title = shortened(title, longest_title);
  if (picture.styles.size() == 1) return {title};
  const std::string range = range_text(picture.style(panel));
  if (form.beside) return {title + " · " + range};
  return {title, range};
}

} // namespace

MapTitles fit_titles(const MapPicture& picture, double room) {
  constexpr double largest = 12, readable_size = 10, least = 8;
  MapTitles titles;
  for (const TitleForm& form :
       {TitleForm{false, true, largest}, TitleForm{false, false, readable_size},
        TitleForm{true, false, least}}) {
    titles.lines.clear();
    double widest = 0; // of the largest letters: widths grow with the size
    for (std::size_t i = 0; i < picture.panels.size(); ++i) {
      titles.lines.push_back(title_lines(picture, i, form));
      for (const std::string& line : titles.lines.back())
        widest = std::max(widest, Font::instance().width(line, largest));
    }
    for (titles.size = largest; titles.size > form.smallest; --titles.size)
      if (widest * titles.size / largest <= room) break;
    titles.widest = widest * titles.size / largest;
    if (titles.widest <= room) break;
  }
  return titles;
}

namespace {

template <class Visit> void each_number(const MapPicture& picture, const Visit& visit) {
  for (const MapPanel& panel : picture.panels)
    for (std::size_t i = 0; i < panel.map.values.size(); ++i)
      if (panel.map.masked[i] == 0) visit(panel.map.values[i]);
}

} // namespace

CellNumbers::CellNumbers(const MapPicture& picture) {
  double largest = 0;
  each_number(picture, [&](double value) {
    if (std::isfinite(value)) largest = std::max(largest, std::abs(value));
  });
  const int digits = largest > 0 ? static_cast<int>(std::floor(std::log10(largest))) : 0;
  scientific_ = digits < -3 || digits > 5;
  // 0.67 and 1.00 have two decimals, 0.067 has three: two are enough for a weight of 0.67.
  decimals_ = std::clamp(digits < -1 ? 1 - digits : 2 - std::max(digits, 0), 0, 6);
  double widest = 0;
  each_number(picture,
              [&](double value) { widest = std::max(widest, text_width(text(value), tick_size)); });
  side_ = std::max<std::size_t>(whole(widest) + 6, 18);
}

std::string CellNumbers::text(double value) const {
  if (std::isnan(value)) return "NaN";
  if (!std::isfinite(value)) return value > 0 ? "∞" : "−∞";
  const std::string number = scientific_ ? fmt::format("{:.1e}", std::abs(value))
                                         : fmt::format("{:.{}f}", std::abs(value), decimals_);
  const bool negative = value < 0 && number.find_first_of("123456789") != std::string::npos;
  return negative ? "−" + number : number;
}

Rgb ink_on(Rgb ground) {
  const auto linear = [](std::uint8_t channel) { return std::pow(channel / 255.0, 2.2); };
  const double light =
      0.2126 * linear(ground.red) + 0.7152 * linear(ground.green) + 0.0722 * linear(ground.blue);
  return light > 0.18 ? Rgb{0, 0, 0} : Rgb{255, 255, 255};
}

} // namespace mha::render
