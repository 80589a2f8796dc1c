#include "support/picture.hpp"
#include <mha/render/encodings.hpp>
#include <mha/render/map.hpp>
#include <mha/render/map_layout.hpp>
#include <mha/render/map_terminal.hpp>

#include <catch2/catch.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <regex>
#include <tuple>

using namespace mha;
using namespace mha::render;
using Catch::Contains;

namespace {

MapAxis axis(const std::string& name, std::size_t count, std::size_t factor = 1) {
  MapAxis made{name, {}, {}, factor};
  for (std::size_t i = 0; i < count; ++i) made.positions.push_back(i);
  return made;
}

/// Panels of numbers that are all different, the upper right masked, one NaN.
MapPicture picture_of(std::size_t panels, std::size_t rows, std::size_t cols) {
  MapPicture picture;
  picture.title = "weights · a < b & \"c\"";
  picture.columns = grid_columns(panels, panels);
  for (std::size_t p = 0; p < panels; ++p) {
    PooledMap map{0, p, rows, cols, {}, {}};
    for (std::size_t i = 0; i < rows * cols; ++i) {
      const bool masked = i % cols > i / cols + 2;
      map.masked.push_back(masked);
      map.values.push_back(masked ? std::nan("")
                                  : static_cast<double>((i * 37 + p * 11) % 1009) / 1009);
    }
    if (rows > 1) map.values[cols] = std::nan("");
    picture.panels.push_back({"", std::move(map), axis("query", rows), axis("key", cols)});
  }
  CellRange range;
  for (const MapPanel& panel : picture.panels) range.add(panel.map);
  picture.styles = {style_for(picture.stage, {}, range)};
  return picture;
}

Rgb expected(const MapPicture& picture, const PooledMap& map, std::size_t row, std::size_t col) {
  const double value = map.value(row, col);
  return std::isnan(value) ? nan_color : picture.styles[0].color(value);
}

double luminance(Rgb color) {
  const auto linear = [](std::uint8_t channel) {
    const double share = channel / 255.0;
    return share <= 0.04045 ? share / 12.92 : std::pow((share + 0.055) / 1.055, 2.4);
  };
  return 0.2126 * linear(color.red) + 0.7152 * linear(color.green) + 0.0722 * linear(color.blue);
}

} // namespace

TEST_CASE("colour maps end as published, and get lighter or darker all the way") {
  const std::map<std::string, std::pair<std::string, std::string>> ends{
      {"viridis", {"#440154", "#fde725"}},
      {"magma", {"#000004", "#fcfdbf"}},
      {"greys", {"#ffffff", "#000000"}},
      {"diverging", {"#053061", "#67001f"}}};
  REQUIRE(color_maps().size() == ends.size());
  for (const ColorMap& map : color_maps()) {
    INFO(map.name);
    const auto& [first, last] = ends.at(std::string(map.name));
    CHECK(hex(map.at(0)) == first);
    CHECK(hex(map.at(-1)) == first);
    CHECK(hex(map.at(1)) == last);
    CHECK(hex(map.at(7)) == last);
    if (map.diverging) {
      CHECK(hex(map.at(0.5)) == "#f7f7f7");
      continue;
    }
    const double sign = luminance(map.at(1)) > luminance(map.at(0)) ? 1 : -1;
    for (int i = 0; i < 100; ++i)
      CHECK(sign * luminance(map.at((i + 1) / 100.0)) > sign * luminance(map.at(i / 100.0)) - 1e-9);
  }
  CHECK_THROWS_WITH(color_map_named("virids"), Contains("did you mean 'viridis'"));
}

TEST_CASE("the 256 colours of terminals: corners of the cube, and greys") {
  CHECK(terminal_color({0, 0, 0}) == 16);
  CHECK(terminal_color({255, 255, 255}) == 231);
  CHECK(terminal_color({255, 0, 0}) == 196);
  CHECK(terminal_color({128, 128, 128}) == 244);
}

TEST_CASE("a PNG's cells have the colours of their numbers") {
  for (std::size_t panels : {std::size_t{1}, std::size_t{6}}) {
    const MapPicture picture = picture_of(panels, 9, 13);
    const test::Pixels pixels = test::decode_png(map_png(picture));
    const MapLayout layout = layout_of(picture);
    REQUIRE(pixels.width == layout.width);
    REQUIRE(pixels.height == layout.height);
    REQUIRE(layout.panels.size() == panels);
    for (const PanelMark& mark : layout.panels) {
      const PooledMap& map = picture.panels[mark.panel].map;
      for (std::size_t row = 0; row < map.rows; ++row)
        for (std::size_t col = 0; col < map.cols; ++col)
          for (std::size_t corner : {std::size_t{0}, mark.cell_width - 1}) {
            const Rgb got = pixels.at(mark.x + col * mark.cell_width + corner,
                                      mark.y + row * mark.cell_height + corner);
            INFO("head " << mark.panel << " cell " << row << ", " << col << " is " << hex(got));
            if (map.is_masked(row, col))
              CHECK((got == masked_ground || got == masked_line));
            else
              CHECK(got == expected(picture, map, row, col));
          }
    }
  }
}

TEST_CASE("a map of one query is high enough to be seen") {
  const MapPicture picture = picture_of(1, 1, 600);
  const PanelMark mark = layout_of(picture).panels.at(0);
  CHECK(mark.cell_width == 1);
  CHECK(mark.cell_height >= 20);
  const test::Pixels pixels = test::decode_png(map_png(picture));
  CHECK(pixels.at(mark.x + 2, mark.y + mark.cell_height - 1) ==
        picture.styles[0].color(picture.panels[0].map.value(0, 2)));
}

TEST_CASE("nothing of a picture is drawn over its edge, and labels do not meet") {
  for (std::size_t size : {std::size_t{2}, std::size_t{33}, std::size_t{100}, std::size_t{400}}) {
    MapPicture picture = picture_of(4, size, size);
    for (MapPanel& panel : picture.panels)
      for (std::size_t i = 0; i < size; ++i)
        panel.cols.labels.push_back("token" + std::to_string(i));
    const MapLayout layout = layout_of(picture);
    std::map<std::pair<bool, long>, std::vector<double>> lines; // upright labels by their row
    for (const TextMark& text : layout.texts) {
      INFO(text.text);
      CHECK(text.x >= 0);
      CHECK(text.y >= text.size * 0.7);
      CHECK(text.x < static_cast<double>(layout.width));
      CHECK(text.y <= static_cast<double>(layout.height));
      if (text.vertical) lines[{true, std::lround(text.y)}].push_back(text.x);
    }
    for (auto& [line, places] : lines) {
      std::sort(places.begin(), places.end());
      for (std::size_t i = 1; i < places.size(); ++i) CHECK(places[i] - places[i - 1] >= 8.5);
    }
  }
}

TEST_CASE("a colour bar is pointed where cells lie beyond its end, in every picture") {
  MapPicture picture = picture_of(2, 5, 7);
  MapStyle& style = picture.styles[0];
  const MapText text{.wide = true, .across = 2, .rows = 5, .cols = 7};
  const TextStyle text_style{false, 80};
  const double as_far_as = style.high;
  const MapLayout as_far = layout_of(picture);
  CHECK(as_far.above.empty());
  CHECK(as_far.below.empty());
  CHECK_THAT(map_text(picture, text, text_style), !Contains("≤") && !Contains("≥"));

  style.low = 0.1, style.high = 0.9;
  const MapLayout layout = layout_of(picture);
  const BoxMark &bar = layout.bar, &frame = as_far.bar;
  CHECK(std::tuple(bar.x, bar.y, bar.width, bar.height) ==
        std::tuple(frame.x, frame.y, frame.width, frame.height));
  CHECK(layout.height == as_far.height);
  std::vector<std::pair<double, std::string>> beside; // from the top
  for (const TextMark& one : layout.texts)
    if (one.x > static_cast<double>(bar.x) && one.y < static_cast<double>(bar.y + bar.height + 9))
      beside.emplace_back(one.y, one.text);
  std::ranges::sort(beside);
  REQUIRE(beside.size() > 2);
  CHECK(beside.front().second == "≥ 0.90");
  CHECK(beside.back().second == "≤ 0.10");
  for (std::size_t i = 1; i < beside.size(); ++i) CHECK(beside[i].first - beside[i - 1].first > 11);
  REQUIRE(layout.above.size() == bar.width / 2 - 1);
  REQUIRE(layout.below.size() == bar.width / 2 - 1);
  for (std::size_t i = 0; i < layout.above.size(); ++i)
    for (const BoxMark& line : {layout.above[i], layout.below[i]}) {
      CHECK(line.x - bar.x == i + 1);
      CHECK(line.width == bar.width - 2 * (i + 1));
      CHECK(line.height == 1);
    }
  CHECK(layout.above.back().y + bar.width / 2 == bar.y);
  CHECK(layout.below.front().y == bar.y + bar.height + 1);
  CHECK_THAT(map_text(picture, text, text_style), Contains("≤ 0.1") && Contains("≥ 0.9"));
  const BoxMark &up = layout.above.front(), &down = layout.below.front();
  const auto rectangle = [](const BoxMark& box, Rgb color) {
    return fmt::format(R"svg(<rect x="{}" y="{}" width="{}" height="1" fill="{}"/>)svg", box.x,
                       box.y, box.width, hex(color));
  };
  CHECK_THAT(map_svg(picture), Contains(rectangle(up, style.color(0.9))) &&
                                   Contains(rectangle(down, style.color(0.1))));
  const test::Pixels pixels = test::decode_png(map_png(picture));
  CHECK(pixels.at(up.x, up.y) == style.color(0.9));
  CHECK(pixels.at(down.x, down.y) == style.color(0.1));

  MapPicture own = picture; // each head's colours
  own.styles.push_back(style);
  CHECK_THAT(map_text(own, text, text_style),
             Contains("each head's smallest and below") && Contains("largest and above"));

  style.low = 0; // what is masked, or no number, is nowhere on the bar
  CHECK(layout_of(picture).below.empty());
  CHECK(layout_of(picture).above.size() == layout.above.size());
  style.high = 0.998 * as_far_as; // nearer than a step of the colours
  CHECK(layout_of(picture).above.empty());
}

TEST_CASE("an SVG is XML whose rectangles have the colours of the numbers") {
  const MapPicture picture = picture_of(2, 7, 11);
  const std::string svg = map_svg(picture);
  CHECK(test::xml_fault(svg) == "");
  CHECK_THAT(svg, Contains("a &lt; b &amp; &quot;c&quot;"));
  const std::regex rectangle(
      R"svg(<rect x="(\d+)" y="(\d+)" width="(\d+)" height="1" fill="(#[0-9a-f]{6})"/>)svg");
  std::size_t from = 0;
  for (const MapPanel& panel : picture.panels) {
    from = svg.find("<g class=\"cells\"", from);
    REQUIRE(from != std::string::npos);
    const std::string group = svg.substr(from, svg.find("</g>", from) - from);
    std::map<std::pair<std::size_t, std::size_t>, std::string> cells;
    for (auto match = std::sregex_iterator(group.begin(), group.end(), rectangle);
         match != std::sregex_iterator(); ++match)
      for (std::size_t i = 0; i < std::stoul((*match)[3]); ++i)
        CHECK(cells.insert({{std::stoul((*match)[2]), std::stoul((*match)[1]) + i}, (*match)[4]})
                  .second);
    for (std::size_t row = 0; row < panel.map.rows; ++row)
      for (std::size_t col = 0; col < panel.map.cols; ++col) {
        INFO("cell " << row << ", " << col);
        if (panel.map.is_masked(row, col))
          CHECK_FALSE(cells.count({row, col}));
        else
          CHECK(cells[{row, col}] == hex(expected(picture, panel.map, row, col)));
      }
    ++from;
  }
}

TEST_CASE("above 128 × 128 cells an SVG embeds a picture, whose cells are whole pixels") {
  const MapPicture picture = picture_of(1, 130, 131);
  const std::string svg = map_svg(picture);
  CHECK(test::xml_fault(svg) == "");
  const std::string before = "data:image/png;base64,";
  const std::size_t data = svg.find(before);
  REQUIRE(data != std::string::npos);
  const std::size_t begin = data + before.size();
  const test::Pixels pixels =
      test::decode_png(test::decode_base64(svg.substr(begin, svg.find('"', begin) - begin)));
  const PooledMap& map = picture.panels[0].map;
  const std::size_t side = pixels.width / map.cols; // viewers smooth what they enlarge
  CHECK(side == 8);
  REQUIRE(pixels.width == map.cols * side);
  REQUIRE(pixels.height == map.rows * side);
  bool same = true;
  for (std::size_t y = 0; y < pixels.height; ++y)
    for (std::size_t x = 0; x < pixels.width; ++x) {
      const std::size_t row = y / side, col = x / side;
      same =
          same && (map.is_masked(row, col) ? pixels.transparent(x, y)
                                           : pixels.at(x, y) == expected(picture, map, row, col));
    }
  CHECK(same);
}

TEST_CASE("a picture of too many pixels is refused") {
  MapPicture picture = picture_of(1, 2, 2);
  PooledMap& map = picture.panels[0].map;
  map.rows = map.cols = 20000;
  picture.panels[0].rows = axis("query", 20000), picture.panels[0].cols = axis("key", 20000);
  CHECK_THROWS_WITH(layout_of(picture), Contains("fewer cells"));
}

TEST_CASE("colours follow the stage, the scale and the ends that are given") {
  const CellRange range{-2, 6, 0.5, true}, positive{0, 0.8, 0.001, true};
  const MapStyle scores = style_for(Stage::scores, {}, range);
  CHECK(scores.colors->name == "diverging");
  CHECK(scores.low == -6);
  CHECK(scores.high == 6);
  CHECK(scores.place(0) == 0.5);
  const MapStyle cut = style_for(Stage::scores, {"", ColorScale::linear, -1.0, {}}, range);
  CHECK(cut.place(0) == 0.5);
  CHECK(cut.place(-5) == Approx(0.5 - 1.0 / 12));
  const MapStyle weights = style_for(Stage::weights, {}, positive);
  CHECK(weights.colors->name == "viridis");
  CHECK(weights.low == 0);
  CHECK(weights.high == 0.8);
  const MapStyle log = style_for(Stage::weights, {"", ColorScale::log, {}, {}}, positive);
  CHECK(log.low == 0.001);
  CHECK(log.place(std::sqrt(0.001 * 0.8)) == Approx(0.5));
  CHECK(log.place(0) == 0);
  const CellRange zero{0, 0, 0, true};
  for (Stage stage : {Stage::weights, Stage::scores, Stage::shifted}) {
    const MapStyle style = style_for(stage, {}, zero);
    CHECK(style.low < style.high);
    CHECK(std::isfinite(style.place(0)));
  }
  CHECK_THROWS_WITH(style_for(Stage::scores, {"", ColorScale::log, {}, {}}, range),
                    Contains("scores has negative numbers, down to -2"));
  CHECK_THROWS_WITH(style_for(Stage::weights, {"diverging", ColorScale::log, {}, {}}, positive),
                    Contains("viridis"));
  CHECK_THROWS_WITH(style_for(Stage::weights, {"", ColorScale::log, 0.0, {}}, positive),
                    Contains("vmin is 0"));
}

TEST_CASE("a colour bar of any two numbers has an end, and places on it") {
  const double most = std::numeric_limits<double>::max(),
               least = std::numeric_limits<double>::denorm_min();
  const std::vector<std::pair<double, double>> ends{{1e20, std::nextafter(1e20, 2e20)},
                                                    {1, std::nextafter(1.0, 2)},
                                                    {-1e308, 1e308},
                                                    {-most, most},
                                                    {0, most},
                                                    {0, least},
                                                    {-least, least},
                                                    {least, 3 * least},
                                                    {1e-300, 1e300},
                                                    {-1e20, std::nextafter(-1e20, 0)}};
  for (const auto& [low, high] : ends)
    for (const char* map : {"viridis", "diverging"})
      for (const ColorScale scale : {ColorScale::linear, ColorScale::log}) {
        if (scale == ColorScale::log && (low <= 0 || map == std::string("diverging"))) continue;
        const MapStyle style{&color_map_named(map), scale, low, high};
        INFO(low << " … " << high << " " << map);
        for (const std::size_t count : {2U, 3U, 8U}) {
          const std::vector<double> list = ticks(style, count);
          CHECK(list.size() >= 1);
          CHECK(list.size() <= 12);
          CHECK(tick_texts(list, style).size() == list.size());
          for (const double tick : list) CHECK(std::isfinite(style.share_of(tick)));
        }
        for (const double share : {0.0, 0.3, 1.0}) {
          CHECK(style.value_at(share) >= low);
          CHECK(style.value_at(share) <= high);
        }
        for (const double value : {low, high, low / 2 + high / 2}) {
          CHECK(style.place(value) >= 0);
          CHECK(style.place(value) <= 1);
        }
        if (map == std::string("viridis")) CHECK(style.place(high) == 1);
      }
}

TEST_CASE("one number everywhere has colours, however large it is") {
  const double most = std::numeric_limits<double>::max();
  for (const double number : {0.0, 1.0, -1.0, 1e20, -1e20, most, -most, 5e-324})
    for (const Stage stage : {Stage::weights, Stage::scores, Stage::shifted}) {
      INFO(number);
      const MapStyle style = style_for(stage, {}, {number, number, std::max(number, 0.0), true});
      CHECK(style.low < style.high);
      CHECK(std::isfinite(style.place(number)));
    }
}

TEST_CASE("an end of the colours that leaves one colour is refused") {
  const CellRange range{0.1, 0.8, 0.1, true};
  for (const ColorScale scale : {ColorScale::linear, ColorScale::log})
    for (const double low : {0.8, 1.5, 1e20})
      CHECK_THROWS_WITH(style_for(Stage::weights, {"", scale, low, {}}, range),
                        Contains("no number is above it, the largest is 0.8"));
  for (const double high : {0.0, -1.0})
    CHECK_THROWS_WITH(style_for(Stage::weights, {"", ColorScale::linear, {}, high}, range),
                      Contains("the colours begin at 0"));
  CHECK(style_for(Stage::weights, {"", ColorScale::linear, 1.5, 2.0}, range).high == 2);
}

TEST_CASE("panels of short texts take no more room than they need") {
  const auto of_sizes = [](const std::vector<std::size_t>& sizes, std::size_t columns) {
    MapPicture picture = picture_of(sizes.size(), 8, 8);
    picture.columns = columns;
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      const MapPicture one = picture_of(1, sizes[i], sizes[i]);
      picture.panels[i] = one.panels[0];
    }
    return layout_of(picture);
  };
  const MapLayout below = of_sizes({8, 2, 1}, 1), beside = of_sizes({8, 2, 1}, 3),
                  other = of_sizes({1, 2, 8}, 1);
  const std::size_t cell = below.panels[0].cell_height;
  const std::size_t first = below.panels[1].y - below.panels[0].y,
                    second = below.panels[2].y - below.panels[1].y;
  CHECK(first == second + 6 * cell);
  CHECK(below.height == other.height);
  CHECK(beside.panels[2].x - beside.panels[1].x < beside.panels[1].x - beside.panels[0].x);
  // Rows of several panels are as high as their highest.
  const MapLayout rows = of_sizes({8, 2, 1, 3}, 2);
  CHECK(rows.panels[2].y - rows.panels[0].y == first);
  CHECK(rows.panels[2].x == rows.panels[0].x);
}

TEST_CASE("a colour bar's ticks are round and lie on it") {
  for (const auto& [low, high] : std::vector<std::pair<double, double>>{
           {0, 1}, {0, 0.667}, {-6.3, 6.3}, {1e-7, 3e-7}, {-40000, 250000}}) {
    MapStyle style{&color_map_named("viridis"), ColorScale::linear, low, high};
    const std::vector<double> list = ticks(style, 6);
    INFO(low << " … " << high);
    CHECK(list.size() >= 3);
    CHECK(list.size() <= 7);
    for (double tick : list) {
      CHECK(tick >= low - (high - low) * 1e-5);
      CHECK(tick <= high + (high - low) * 1e-5);
    }
  }
  const MapStyle log{&color_map_named("viridis"), ColorScale::log, 1e-6, 1};
  const std::vector<double> decades = ticks(log, 8);
  REQUIRE(decades.size() == 7);
  CHECK(tick_texts(decades, log) ==
        std::vector<std::string>{"10⁻⁶", "10⁻⁵", "10⁻⁴", "10⁻³", "0.01", "0.1", "1"});
}

TEST_CASE("heads stand in full rows where there are some") {
  const std::map<std::size_t, std::size_t> columns{{1, 1}, {2, 2},  {3, 3},  {4, 2},
                                                   {8, 4}, {12, 4}, {16, 4}, {32, 8}};
  for (const auto& [panels, wide] : columns) CHECK(grid_columns(panels, panels) == wide);
  CHECK(grid_columns(24, 12) == 12);
  CHECK(grid_columns(12, 1) == 4);
}

TEST_CASE("text fits its window, with colours and without") {
  for (Depth depth : {Depth::none, Depth::palette, Depth::truecolor})
    for (std::size_t width : {std::size_t{40}, std::size_t{80}, std::size_t{200}})
      for (std::size_t size : {std::size_t{3}, std::size_t{33}, std::size_t{500}})
        for (std::size_t panels : {std::size_t{1}, std::size_t{5}}) {
          const TextStyle text_style{depth != Depth::none, width, true, 24, depth};
          const MapText text =
              fit_text({panels, panels, axis("query", size), axis("key", size)}, text_style);
          // Pooled as asked for: factors from the room there is.
          const std::size_t down = (size + text.rows - 1) / text.rows,
                            along = (size + text.cols - 1) / text.cols;
          MapPicture picture =
              picture_of(panels, (size + down - 1) / down, (size + along - 1) / along);
          picture.columns = panels;
          for (MapPanel& panel : picture.panels)
            panel.rows = axis("query", size, down), panel.cols = axis("key", size, along);
          const std::string out = map_text(picture, text, text_style);
          INFO("width " << width << " size " << size << " panels " << panels << "\n" << out);
          std::size_t lines = 0;
          for (std::size_t at = 0; at < out.size(); ++lines) {
            const std::size_t end = out.find('\n', at);
            REQUIRE(end != std::string::npos);
            CHECK(display_width(out.substr(at, end - at)) <= width);
            at = end + 1;
          }
          if (panels == 1) CHECK(lines <= 24);
          CHECK((out.find('\x1b') == std::string::npos) == (depth == Depth::none));
        }
}

TEST_CASE("shades show small and large, masked keys are dots") {
  MapPicture picture = picture_of(1, 2, 3);
  picture.panels[0].map.values = {0, 0.5, 1, 0.3, 0.7, 0.999};
  picture.panels[0].map.masked = {0, 0, 0, 0, 0, 1};
  picture.styles[0].low = 0, picture.styles[0].high = 1;
  const TextStyle text_style{false, 60};
  const std::string out = map_text(picture, {true, false, 1, 2, 3, false}, text_style);
  CHECK_THAT(out, Contains("│  ▒▒██│\n") && Contains("│░░▓▓· │\n"));
}

TEST_CASE("without colours a map with signs tells them apart, and zero from both") {
  MapPicture picture = picture_of(1, 1, 7);
  picture.panels[0].map.values = {-1, -0.5, -0.2, 0, 0.2, 0.5, 1};
  picture.panels[0].map.masked.assign(7, false);
  picture.styles = {style_for(Stage::scaled, {}, {.low = -1, .high = 1, .any = true})};
  const std::string out =
      map_text(picture, {.wide = false, .rows = 1, .cols = 7}, {.color = false, .width = 60});
  INFO(out);
  CHECK(out.find("│≡=- ░▒█│") != std::string::npos);
  CHECK(out.find("-1.00 [≡≡≡===---   ░░░▒▒▒███] 1.00") != std::string::npos);
}

TEST_CASE("without colours every number is shown where the window has room for it") {
  // Three heads of 14 tokens do not stand beside each other with cells of two columns.
  const TextStyle text_style{false, 100, true, 40, Depth::none};
  const MapText text = fit_text({3, 3, axis("query", 14), axis("key", 14), 6}, text_style);
  CHECK(text.rows == 14);
  CHECK(text.cols == 14);
  CHECK(text.across == 3);
}
