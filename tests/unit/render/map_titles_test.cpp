#include <mha/render/font.hpp>
#include <mha/render/map.hpp>
#include <mha/render/map_layout.hpp>
#include <mha/render/map_terminal.hpp>

#include <catch2/catch.hpp>

#include <algorithm>

using namespace mha;
using namespace mha::render;

namespace {

MapAxis axis(const std::string& name, std::size_t count, std::size_t factor = 1) {
  MapAxis made{name, {}, {}, factor};
  for (std::size_t i = 0; i < count; ++i) made.positions.push_back(i);
  return made;
}

struct Grid {
  std::size_t layers = 1, heads = 1, size = 16;
  bool own_ranges = false;
};

MapPicture grid_of(const Grid& grid) {
  MapPicture picture;
  picture.title = "weights";
  picture.several_layers = grid.layers > 1;
  picture.columns = grid_columns(grid.layers * grid.heads, grid.heads);
  for (std::size_t l = 0; l < grid.layers; ++l)
    for (std::size_t h = 0; h < grid.heads; ++h) {
      PooledMap map{0, h, grid.size, grid.size, {}, {}};
      map.values.assign(grid.size * grid.size, 0.25);
      map.masked.assign(grid.size * grid.size, 0);
      picture.panels.push_back(
          {std::to_string(l), std::move(map), axis("query", grid.size), axis("key", grid.size)});
    }
  const MapStyle style{&color_map_named("viridis"), ColorScale::linear, -12.34, 56.78};
  picture.styles.assign(grid.own_ranges ? picture.panels.size() : 1, style);
  return picture;
}

double right_of(const TextMark& text) {
  const double width = Font::instance().width(text.text, text.size);
  return text.x + (text.anchor == Anchor::start    ? width
                   : text.anchor == Anchor::middle ? width / 2
                                                   : 0);
}

} // namespace

TEST_CASE("titles fit their panels, and leave the colour bar alone") {
  for (const Grid& grid : {Grid{1, 1, 3}, Grid{1, 12, 33}, Grid{1, 144, 16}, Grid{12, 12, 64},
                           Grid{32, 32, 35}, Grid{2, 32, 200}, Grid{1, 3, 2}})
    for (const bool own : {false, true}) {
      Grid made = grid;
      made.own_ranges = own;
      const MapPicture picture = grid_of(made);
      const MapLayout layout = layout_of(picture);
      INFO(grid.layers << " × " << grid.heads << " of " << grid.size
                       << (own ? ", own ranges" : ""));
      REQUIRE(layout.panels.size() == picture.panels.size());
      std::size_t titled = 0;
      for (const PanelMark& mark : layout.panels) {
        // The room up to the next panel, or to the bar.
        double room = static_cast<double>(layout.bar.x) - 8;
        for (const PanelMark& other : layout.panels)
          if (other.y == mark.y && other.x > mark.x)
            room = std::min(room, static_cast<double>(other.x) - 8);
        const auto cells = static_cast<double>(mark.cell_width * grid.size);
        for (const TextMark& text : layout.texts) {
          const bool above = text.x == static_cast<double>(mark.x) &&
                             text.anchor == Anchor::start && text.y < static_cast<double>(mark.y) &&
                             text.y > static_cast<double>(mark.y) - 40;
          if (!above) continue;
          ++titled;
          CHECK(text.size >= 8);
          CHECK(right_of(text) <= room);
          if (cells >= 70) CHECK(right_of(text) <= static_cast<double>(mark.x) + cells);
        }
      }
      CHECK(titled >= picture.panels.size());
    }
}

TEST_CASE("many heads in text: all in the window where they can be, titles whole") {
  struct Window {
    std::size_t width, height;
    Grid grid;
    bool fits;
  };
  for (const Window& window :
       {Window{80, 24, {1, 12, 33}, true}, Window{80, 24, {1, 4, 33}, true},
        Window{200, 60, {12, 12, 64}, true}, Window{40, 24, {1, 12, 33}, false},
        Window{80, 24, {12, 12, 64}, false}, Window{80, 24, {1, 144, 2}, false},
        Window{40, 12, {1, 2, 500}, true}, Window{80, 24, {1, 1024, 20}, false}})
    for (Depth depth : {Depth::none, Depth::truecolor})
      for (const bool own : {false, true}) {
        const TextStyle text_style{depth != Depth::none, window.width, true, window.height, depth};
        Grid grid = window.grid;
        grid.own_ranges = own;
        const std::size_t heads = grid.layers * grid.heads, size = grid.size;
        const std::size_t columns = grid.layers > 1 ? grid.heads : heads;
        std::size_t title = grid.layers > 1 ? 7 : 1 + std::to_string(heads - 1).size();
        if (own) title = std::max(title, widest_range);
        const MapText text =
            fit_text({heads, columns, axis("query", size), axis("key", size), title}, text_style);
        const std::size_t down = (size + text.rows - 1) / text.rows,
                          along = (size + text.cols - 1) / text.cols;
        MapPicture picture = grid_of(grid);
        picture.columns = columns;
        for (MapPanel& panel : picture.panels) {
          panel.rows = axis("query", size, down), panel.cols = axis("key", size, along);
          panel.map.rows = (size + down - 1) / down, panel.map.cols = (size + along - 1) / along;
        }
        const std::string out = map_text(picture, text, text_style);
        INFO(window.width << " × " << window.height << ", " << heads << " heads\n" << out);
        std::size_t lines = 0;
        for (std::size_t at = 0; at < out.size(); ++lines) {
          const std::size_t end = out.find('\n', at);
          REQUIRE(end != std::string::npos);
          CHECK(display_width(out.substr(at, end - at)) <= window.width);
          at = end + 1;
        }
        if (window.fits && !own) CHECK(lines <= window.height);
        // The last head is named whole, in its long form or its short one.
        const std::string last = std::to_string(grid.heads - 1);
        CHECK((out.find("H" + last) != std::string::npos ||
               out.find("head " + last) != std::string::npos));
      }
}
