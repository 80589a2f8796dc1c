#include <mha/render/colormap.hpp>

#include <mha/system/error.hpp>
#include <mha/system/named.hpp>

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

namespace mha::render {

namespace {

// Every fifteenth of the 256 published colours. Interpolated ones are at most 5 of 255 off.
constexpr std::array<std::uint32_t, 18> viridis{
    0x440154, 0x481769, 0x472a7a, 0x433d84, 0x3d4e8a, 0x355e8d, 0x2e6d8e, 0x297b8e, 0x23898e,
    0x1f978b, 0x21a585, 0x2eb37c, 0x46c06f, 0x65cb5e, 0x89d548, 0xb0dd2f, 0xd8e219, 0xfde725};
constexpr std::array<std::uint32_t, 18> magma{
    0x000004, 0x090720, 0x1a1042, 0x311165, 0x4a1079, 0x621980, 0x792282, 0x912b81, 0xaa337d,
    0xc23b75, 0xd9466b, 0xec5860, 0xf7725c, 0xfc8e64, 0xfeaa74, 0xfec68a, 0xfde2a3, 0xfcfdbf};
constexpr std::array<std::uint32_t, 2> greys{0xffffff, 0x000000};
constexpr std::array<std::uint32_t, 11> red_blue{0x053061, 0x2166ac, 0x4393c3, 0x92c5de,
                                                 0xd1e5f0, 0xf7f7f7, 0xfddbc7, 0xf4a582,
                                                 0xd6604d, 0xb2182b, 0x67001f};

// Codes of the 256 colours of a terminal, ordered by lightness, then chosen by hue, and none near
// the magenta of NaN. The nearest colours would not be ordered: #5f5f87 is nearest to a place
// before that of the darker #005f87.
constexpr std::array<std::uint8_t, 12> terminal_viridis{17, 18, 54,  55,  24,  30,
                                                        36, 77, 148, 184, 220, 227};
constexpr std::array<std::uint8_t, 12> terminal_magma{232, 17,  18,  54,  90,  126,
                                                      161, 167, 209, 216, 222, 229};
constexpr std::array<std::uint8_t, 14> terminal_greys{231, 255, 253, 251, 249, 247, 245,
                                                      243, 241, 239, 237, 235, 233, 16};
// An odd number, so that the middle one is zero's.
constexpr std::array<std::uint8_t, 13> terminal_red_blue{18,  25,  67,  74,  117, 195, 231,
                                                         224, 216, 209, 167, 124, 52};

constexpr ColorMap every_color_map[] = {
    {"viridis", "dark blue to yellow", false, viridis, terminal_viridis},
    {"magma", "black over red to cream", false, magma, terminal_magma},
    {"greys", "white to black, for print", false, greys, terminal_greys},
    {"diverging", "blue below zero, white, red above", true, red_blue, terminal_red_blue},
};

constexpr std::array<std::uint8_t, 6> cube_levels{0, 95, 135, 175, 215, 255};

Rgb rgb(std::uint32_t code) {
  return {static_cast<std::uint8_t>(code >> 16), static_cast<std::uint8_t>(code >> 8),
          static_cast<std::uint8_t>(code)};
}

int squared_distance(Rgb a, Rgb b) {
  const int red = a.red - b.red, green = a.green - b.green, blue = a.blue - b.blue;
  return red * red + green * green + blue * blue;
}

} // namespace

std::string hex(Rgb color) {
  return fmt::format("#{:02x}{:02x}{:02x}", color.red, color.green, color.blue);
}

Rgb mixed(Rgb first, Rgb second, double share) {
  const auto mix = [&](std::uint8_t a, std::uint8_t b) {
    return static_cast<std::uint8_t>(std::lround(a + (b - a) * share));
  };
  return {mix(first.red, second.red), mix(first.green, second.green), mix(first.blue, second.blue)};
}

Rgb ColorMap::at(double t) const {
  const double place = std::clamp(t, 0.0, 1.0) * static_cast<double>(points.size() - 1);
  const std::size_t i = std::min(static_cast<std::size_t>(place), points.size() - 2);
  return mixed(rgb(points[i]), rgb(points[i + 1]), place - static_cast<double>(i));
}

std::uint8_t ColorMap::terminal_at(double t) const {
  const double place = std::clamp(t, 0.0, 1.0) * static_cast<double>(terminal.size());
  return terminal[std::min(static_cast<std::size_t>(place), terminal.size() - 1)];
}

std::span<const ColorMap> color_maps() {
  return every_color_map;
}

const ColorMap& color_map_named(std::string_view name) {
  if (const ColorMap* map = find_named(every_color_map, name)) return *map;
  fail("no colour map is called '{}'{}", name, choices_for(name, names_of_rows(every_color_map)));
}

Rgb terminal_rgb(std::uint8_t code) {
  if (code < 16) fail("colour {} of a terminal is the user's: 16 to 255 expected", code);
  if (code >= 232) {
    const auto shade = static_cast<std::uint8_t>(8 + 10 * (code - 232));
    return {shade, shade, shade};
  }
  const int cube = code - 16;
  const auto level = [](int at) { return cube_levels[static_cast<std::size_t>(at)]; };
  return {level(cube / 36), level(cube / 6 % 6), level(cube % 6)};
}

std::uint8_t terminal_color(Rgb color) {
  // 16 … 231: a cube of 6 levels a channel; 232 … 255: greys 8, 18 … 238.
  const auto level = [](std::uint8_t value) {
    std::size_t best = 0;
    for (std::size_t i = 1; i < cube_levels.size(); ++i)
      if (std::abs(cube_levels[i] - value) < std::abs(cube_levels[best] - value)) best = i;
    return best;
  };
  const std::size_t red = level(color.red), green = level(color.green), blue = level(color.blue);
  const Rgb cube{cube_levels[red], cube_levels[green], cube_levels[blue]};
  const int mean = (color.red + color.green + color.blue) / 3;
  const int step = std::clamp((mean - 8 + 5) / 10, 0, 23);
  const auto shade = static_cast<std::uint8_t>(8 + 10 * step);
  if (squared_distance({shade, shade, shade}, color) < squared_distance(cube, color))
    return static_cast<std::uint8_t>(232 + step);
  return static_cast<std::uint8_t>(16 + 36 * red + 6 * green + blue);
}

} // namespace mha::render
