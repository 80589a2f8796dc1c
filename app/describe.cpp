#include "describe.hpp"

#include <mha/load/loaded_words.hpp>
#include <mha/render/overview.hpp>

#include <filesystem>

namespace mha::app {

std::string shown_path(const std::string& text) {
  const std::filesystem::path path(text);
  const bool dots = text.find_first_not_of("./") == std::string::npos;
  if (text.empty() || (!path.is_absolute() && !dots)) return text;
  std::error_code error;
  std::filesystem::path whole = std::filesystem::absolute(path, error).lexically_normal();
  if (error) return text;
  if (!whole.has_filename()) whole = whole.parent_path(); // "/data/model/"
  return whole.has_filename() ? whole.filename().string() : text;
}

std::string headline_text(const OpenedModel& model, const LoadedLayer& loaded) {
  return render::headline_text(model.title(), words_of(loaded));
}

std::string headline(const OpenedModel& model, const LoadedLayer& loaded,
                     const render::TextStyle& text_style) {
  return render::headline(model.title(), words_of(loaded), text_style);
}

std::string description(const LoadedLayer& loaded) {
  return render::visible(words_of(loaded).text());
}

std::string title_of(const OpenedModel& model) {
  const std::string title = model.title();
  // In NAME=FILE and FILE:DTYPE[SHAPE], the name before the path is kept.
  const std::size_t equals = title.find('=');
  const bool binding = equals != std::string::npos && title.find('/') > equals;
  const std::string before = binding ? title.substr(0, equals + 1) : "";
  return before + shown_path(title.substr(before.size()));
}

} // namespace mha::app
