#pragma once
// The table of the tensors that a layer is made of and of its settings, printed.

#include <mha/render/text.hpp>

#include <string>

namespace mha::render {

/// Every tensor: name, shape, meaning, what else it may be called; then the settings.
std::string names_table(const TextStyle& text_style);
/// {"tensors": [{"name", "shape", "text", "axes", "aliases"}], "settings": […]}
std::string names_json();
/// The table of docs/formats.md.
std::string names_markdown();

} // namespace mha::render
