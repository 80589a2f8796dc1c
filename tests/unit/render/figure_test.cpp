#include "support/picture.hpp"
#include <mha/render/map.hpp>
#include <mha/render/map_layout.hpp>
#include <mha/render/map_terminal.hpp>

#include <catch2/catch.hpp>

#include <cmath>
#include <map>
#include <regex>
#include <set>

using namespace mha;
using namespace mha::render;
using Catch::Contains;

namespace {

MapAxis axis(const std::string& name, std::size_t count) {
  MapAxis made{name, {}, {}, 1};
  for (std::size_t i = 0; i < count; ++i) made.positions.push_back(i);
  return made;
}

/// Panels of numbers from 0 to 1 that are all different; of a causal map where asked for.
MapPicture figure_of(std::size_t panels, std::size_t rows, std::size_t cols, bool causal = true) {
  MapPicture picture;
  picture.title = "a title";
  picture.columns = grid_columns(panels, panels);
  for (std::size_t p = 0; p < panels; ++p) {
    PooledMap map{0, p, rows, cols, {}, {}};
    for (std::size_t i = 0; i < rows * cols; ++i) {
      map.masked.push_back(causal && i % cols > i / cols);
      map.values.push_back(static_cast<double>((i * 37 + p * 11) % 1009) / 1009);
    }
    picture.panels.push_back({"", std::move(map), axis("query", rows), axis("key", cols)});
  }
  CellRange range;
  for (const MapPanel& panel : picture.panels) range.add(panel.map);
  picture.styles = {style_for(picture.stage, {}, range)};
  return picture;
}

/// Relative luminance (WCAG 2.2).
double luminance(Rgb color) {
  const auto linear = [](std::uint8_t channel) {
    const double share = channel / 255.0;
    return share <= 0.04045 ? share / 12.92 : std::pow((share + 0.055) / 1.055, 2.4);
  };
  return 0.2126 * linear(color.red) + 0.7152 * linear(color.green) + 0.0722 * linear(color.blue);
}
/// CIE 1976: 0 to 100.
double lightness(Rgb color) {
  const double y = luminance(color);
  return y > 0.008856 ? 116 * std::cbrt(y) - 16 : 903.3 * y;
}

/// The colour of xterm's table, by its own formula.
Rgb xterm(int code) {
  if (code >= 232) {
    const auto grey = static_cast<std::uint8_t>((code - 232) * 10 + 8);
    return {grey, grey, grey};
  }
  const auto level = [](int at) { return static_cast<std::uint8_t>(at == 0 ? 0 : at * 40 + 55); };
  return {level((code - 16) / 36), level((code - 16) % 36 / 6), level((code - 16) % 6)};
}

/// The codes that a map's cells have in 256 colours, in the order of the text.
std::vector<int> codes_in(const std::string& text) {
  std::vector<int> codes;
  const std::regex escape("\x1b\\[48;5;([0-9]+)m");
  for (auto match = std::sregex_iterator(text.begin(), text.end(), escape);
       match != std::sregex_iterator(); ++match)
    codes.push_back(std::stoi((*match)[1]));
  return codes;
}

} // namespace

TEST_CASE("in 256 colours a map's colours are ordered in lightness, and many") {
  for (int code = 16; code < 256; ++code) {
    CHECK(terminal_rgb(static_cast<std::uint8_t>(code)) == xterm(code));
    CHECK(terminal_rgb(terminal_color(xterm(code))) == xterm(code));
  }
  CHECK_THROWS_WITH(terminal_rgb(7), Contains("16 to 255"));
  for (const ColorMap& map : color_maps()) {
    INFO(map.name);
    std::vector<double> steps;
    std::set<int> codes;
    constexpr int parts = 1000;
    std::map<int, int> share; // of the range that has a colour
    for (int i = 0; i < parts; ++i) {
      const int code = map.terminal_at((i + 0.5) / parts);
      codes.insert(code), ++share[code];
      const double light = lightness(xterm(code));
      if (steps.empty() || light != steps.back()) steps.push_back(light);
    }
    CHECK(codes.size() >= 12);
    CHECK(steps.size() == codes.size()); // no colour comes back
    for (const auto& [code, count] : share) CHECK(count <= parts / 10);
    const double direction = map.diverging || steps.back() > steps.front() ? 1 : -1;
    for (std::size_t i = 1; i < steps.size(); ++i) {
      const bool falls = map.diverging && 2 * i > steps.size();
      CHECK((falls ? -1 : direction) * (steps[i] - steps[i - 1]) > 2);
    }
    if (map.diverging) CHECK(hex(xterm(map.terminal_at(0.5))) == "#ffffff");
    // The lightness is about that of the map, and nothing is taken for NaN.
    for (double t : {0.0, 0.25, 0.5, 0.75, 1.0}) {
      const Rgb color = xterm(map.terminal_at(t));
      CHECK(std::abs(lightness(color) - lightness(map.at(t))) < 20);
      CHECK_FALSE((color.red == color.blue && color.red > 0 && color.green == 0));
    }
    for (double t = 0; t <= 1; t += 0.01) CHECK(xterm(map.terminal_at(t)) != nan_color);
  }
}

TEST_CASE("a map in 256 colours gets lighter where its numbers grow") {
  MapPicture picture = figure_of(1, 1, 40, false);
  for (std::size_t i = 0; i < 40; ++i)
    picture.panels[0].map.values[i] = static_cast<double>(i) / 39;
  for (const char* name : {"viridis", "magma"}) {
    picture.styles[0].colors = &color_map_named(name);
    picture.styles[0].low = 0, picture.styles[0].high = 1;
    TextStyle text_style{true, 120};
    text_style.depth = Depth::palette;
    const std::string text = map_text(picture, {true, false, 1, 1, 40, false}, text_style);
    const std::string row = text.substr(text.find("0 \x1b"), text.find('\n', text.find("0 \x1b")));
    double before = -1;
    std::vector<int> codes = codes_in(row.substr(0, row.find('\n')));
    CHECK(codes.size() >= 12);
    for (int code : codes) {
      CHECK(lightness(xterm(code)) > before);
      before = lightness(xterm(code));
    }
  }
}

TEST_CASE("long maps of weights are drawn on a log scale, their cells the largest, unless asked") {
  const CellRange range{0, 0.8, 1e-2, true}, scores{-2, 6, 0.5, true};
  CHECK_FALSE(is_long_map(128, 128));
  CHECK(is_long_map(129, 1));
  CHECK(is_long_map(1, 129));
  const auto scale = [&](Stage stage, MapColors colors, const CellRange& of) {
    return style_for(stage, colors, of).scale;
  };
  MapColors long_map;
  long_map.is_long = true;
  CHECK(scale(Stage::weights, long_map, range) == ColorScale::log);
  CHECK(scale(Stage::exp, long_map, range) == ColorScale::log);
  CHECK(scale(Stage::weights, {}, range) == ColorScale::linear);
  CHECK(scale(Stage::scores, long_map, scores) == ColorScale::linear);
  CHECK(scale(Stage::shifted, long_map, {-5, 0, 0, true}) == ColorScale::linear);
  CHECK(scale(Stage::weights, long_map, {-0.1, 0.8, 0.1, true}) == ColorScale::linear);
  CHECK(scale(Stage::weights, long_map, {0, 0, 0, true}) == ColorScale::linear);
  MapColors other = long_map;
  other.map = "diverging";
  CHECK(scale(Stage::weights, other, range) == ColorScale::linear);
  other = long_map, other.low = 0.0;
  CHECK(scale(Stage::weights, other, range) == ColorScale::linear);
  other = long_map, other.scale = ColorScale::linear;
  CHECK(scale(Stage::weights, other, range) == ColorScale::linear);
  // Four decades, as a page has them, also where the smallest weight is larger.
  const MapStyle style = style_for(Stage::weights, long_map, range);
  CHECK(style.low == Approx(0.8e-4));
  CHECK(style.high == 0.8);
  CHECK(default_pooling(Stage::weights) == Pooling::max);
  CHECK(default_pooling(Stage::exp) == Pooling::max);
  CHECK(default_pooling(Stage::scores) == Pooling::mean);
  CHECK(default_pooling(Stage::masked) == Pooling::mean);
}

TEST_CASE("a figure that is zoomed has all its parts so many times as large") {
  for (double zoom : {0.5, 1.5, 3.0}) {
    MapPicture picture = figure_of(2, 7, 11);
    const MapLayout layout = layout_of(picture);
    picture.figure.zoom = zoom;
    const test::Pixels pixels = test::decode_png(map_png(picture));
    const auto scaled = [&](std::size_t at) {
      return static_cast<std::size_t>(std::lround(static_cast<double>(at) * zoom));
    };
    CHECK(pixels.width == scaled(layout.width));
    CHECK(pixels.height == scaled(layout.height));
    for (const PanelMark& mark : layout.panels)
      for (std::size_t row = 0; row < 7; ++row)
        for (std::size_t col = 0; col < 11; ++col) {
          const PooledMap& map = picture.panels[mark.panel].map;
          const Rgb got = pixels.at(scaled(mark.x + col * mark.cell_width + mark.cell_width / 2),
                                    scaled(mark.y + row * mark.cell_height + mark.cell_height / 2));
          if (map.is_masked(row, col))
            CHECK((got == masked_ground || got == masked_line));
          else
            CHECK(got == picture.styles[0].color(map.value(row, col)));
        }
    const std::string svg = map_svg(picture);
    std::smatch size;
    REQUIRE(std::regex_search(svg, size, std::regex("<svg [^>]*width=\"([0-9.]+)\"")));
    CHECK(std::stod(size[1]) == Approx(static_cast<double>(layout.width) * zoom));
  }
  MapPicture fine = figure_of(1, 300, 300);
  fine.figure.zoom = 0.25;
  CHECK_THROWS_WITH(map_png(fine), Contains("zoom 0.25") && Contains("fewer cells"));
  CHECK_NOTHROW(map_pdf(fine));
  fine.figure.zoom = 100;
  CHECK_THROWS_WITH(map_png(fine), Contains("at most 100"));
}

TEST_CASE("a figure is as wide as asked for, its letters as large as always") {
  for (std::size_t panels : {std::size_t{1}, std::size_t{4}})
    for (std::size_t width : {std::size_t{400}, std::size_t{777}, std::size_t{1500}}) {
      INFO(panels << " panels in " << width);
      MapPicture picture = figure_of(panels, 9, 9);
      picture.title =
          "a title that is very much longer than the picture could ever be wide, and "
          "still goes on and on, until it has to be cut somewhere in its middle, to fit";
      picture.figure.width = width;
      const MapLayout layout = layout_of(picture);
      CHECK(layout.width == width);
      CHECK(test::decode_png(map_png(picture)).width == width);
      double right = 0;
      for (const PanelMark& mark : layout.panels)
        right = std::max(right, static_cast<double>(mark.x + 9 * mark.cell_width));
      // The panels take the room, but for the colour bar and less than a cell.
      CHECK(right > static_cast<double>(width) - 110);
      std::set<double> sizes;
      for (const TextMark& text : layout.texts) {
        CHECK(text.x <= static_cast<double>(width));
        sizes.insert(text.size);
      }
      CHECK(*sizes.rbegin() == 15);
      CHECK(*sizes.begin() >= 8);
    }
  MapPicture picture = figure_of(4, 200, 200);
  picture.figure.width = 300;
  CHECK_THROWS_WITH(layout_of(picture), Contains("width 300") && Contains("fewer cells"));
}

TEST_CASE("a picture of few cells is no stamp") {
  for (std::size_t size : {std::size_t{2}, std::size_t{3}, std::size_t{6}}) {
    const MapLayout one = layout_of(figure_of(1, size, size)),
                    two = layout_of(figure_of(2, size, size));
    INFO(size);
    CHECK(one.width > 420);
    CHECK(two.width > 700);
    CHECK(two.width < 1200);
  }
}

TEST_CASE("a picture without a title has no room for one") {
  MapPicture picture = figure_of(1, 4, 4);
  const MapLayout titled = layout_of(picture);
  picture.title.clear();
  const MapLayout bare = layout_of(picture);
  CHECK(bare.height + 20 < titled.height);
  CHECK(bare.texts.size() + 1 == titled.texts.size());
  CHECK_THAT(map_svg(picture), !Contains("<title>"));
  const std::string text = map_text(picture, {true, false, 1, 4, 4, false}, {false, 80});
  CHECK_THAT(text.substr(0, text.find('\n')), Contains("head 0"));
}

TEST_CASE("annotated cells have their numbers, in a colour that can be read on them") {
  for (const char* name : {"viridis", "magma", "greys", "diverging"}) {
    MapPicture picture = figure_of(2, 5, 6);
    picture.styles[0].colors = &color_map_named(name);
    picture.figure.annotate = true;
    const MapLayout layout = layout_of(picture);
    std::size_t found = 0;
    for (const PanelMark& mark : layout.panels) {
      const PooledMap& map = picture.panels[mark.panel].map;
      for (std::size_t row = 0; row < map.rows; ++row)
        for (std::size_t col = 0; col < map.cols; ++col) {
          const double left = static_cast<double>(mark.x + col * mark.cell_width),
                       top = static_cast<double>(mark.y + row * mark.cell_height);
          std::vector<const TextMark*> here;
          for (const TextMark& text : layout.texts)
            if (text.anchor == Anchor::middle && !text.vertical && text.x > left &&
                text.x < left + static_cast<double>(mark.cell_width) && text.y > top &&
                text.y < top + static_cast<double>(mark.cell_height))
              here.push_back(&text);
          INFO(name << " cell " << row << ", " << col);
          REQUIRE(here.size() == (map.is_masked(row, col) ? 0 : 1));
          if (here.empty()) continue;
          ++found;
          CHECK(std::abs(std::stod(here[0]->text) - map.value(row, col)) <= 0.005 + 1e-12);
          const double ground = luminance(picture.styles[0].color(map.value(row, col))),
                       letters = luminance(here[0]->color);
          CHECK((std::max(ground, letters) + 0.05) / (std::min(ground, letters) + 0.05) > 4.4);
        }
    }
    CHECK(found == 2 * (1 + 2 + 3 + 4 + 5));
  }
  MapPicture large = figure_of(1, 65, 10);
  large.figure.annotate = true;
  CHECK_THROWS_WITH(layout_of(large), Contains("annotate: 65 × 10 cells"));
}

TEST_CASE("numbers of cells have as many decimals as tell the largest in three digits") {
  const auto texts = [](std::vector<double> values) {
    MapPicture picture = figure_of(1, 1, values.size(), false);
    picture.panels[0].map.values = std::move(values);
    picture.figure.annotate = true;
    std::vector<std::string> list;
    for (const TextMark& text : layout_of(picture).texts)
      if (text.anchor == Anchor::middle && text.size == 10 &&
          (text.color == Rgb{0, 0, 0} || text.color == Rgb{255, 255, 255}))
        list.push_back(text.text);
    return list;
  };
  using Texts = std::vector<std::string>;
  CHECK(texts({1, 0.25, 0}) == Texts{"1.00", "0.25", "0.00"});
  CHECK(texts({-362.4, 1.732, -0.001}) == Texts{"−362", "2", "0"});
  CHECK(texts({-45.67, 3}) == Texts{"−45.7", "3.0"});
  CHECK(texts({0.0321, 0.001}) == Texts{"0.032", "0.001"});
  CHECK(texts({1e-7, 5e-8}) == Texts{"1.0e-07", "5.0e-08"});
  CHECK(texts({std::nan(""), 1}) == Texts{"NaN", "1.00"});
}

TEST_CASE("an SVG or a PDF of many small panels stays small") {
  const MapPicture few = figure_of(4, 60, 60), many = figure_of(144, 33, 33);
  CHECK(few.cells() <= most_vector_cells);
  CHECK_THAT(map_svg(few), !Contains("<image"));
  CHECK(many.cells() > most_vector_cells);
  CHECK_THAT(map_svg(many), Contains("<image") && !Contains("<rect x=\"0\" y=\"0\" width=\"1\""));
  CHECK(map_svg(many).size() < 1'500'000); // as rectangles 5 MB
  CHECK(map_pdf(many).size() < 1'000'000);
}
