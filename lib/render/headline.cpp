#include <mha/render/headline.hpp>

namespace mha::render {

namespace {

std::string name_text(std::string_view title, const LayerWords& words) {
  return visible(title) + (words.layer.empty() ? "" : " " + visible(words.layer));
}

} // namespace

std::string headline(std::string_view title, const LayerWords& words, const TextStyle& text_style) {
  const std::string name = name_text(title, words);
  return text_style.bold(name) +
         text_style.dim(fitted_facts(visible(words.facts), display_width(name), text_style.width)) +
         "\n";
}

std::string headline_text(std::string_view title, const LayerWords& words) {
  return name_text(title, words) + visible(words.facts);
}

} // namespace mha::render
