#pragma once
// The table of the tensors that a layer is made of and of its settings, printed.

#include <mha/render/text.hpp>

#include <string>

namespace mha::render {

/// One of `result_forms`: every tensor with its name, shape, meaning and what else it may be
/// called, then the settings. As json {"tensors": [{"name", "shape", "text", "axes", "aliases"}],
/// "settings": […]}; as markdown the table of docs/formats.md.
std::string names_text(std::string_view form, const TextStyle& text_style);

} // namespace mha::render
