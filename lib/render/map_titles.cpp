#include <mha/render/map_titles.hpp>

#include <mha/render/font.hpp>

#include <algorithm>

namespace mha::render {

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

} // namespace mha::render
