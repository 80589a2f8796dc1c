#pragma once
// The table of stages, and the table of tensors and settings, as text.

#include <mha/layer/layer.hpp>
#include <mha/render/text.hpp>

#include <string>

namespace mha::render {

/// One of `result_forms`; as markdown the page docs/stages.md. With a layer: its concrete shapes,
/// and which stages it has.
std::string stages_text(const Layer* layer, std::string_view form, const TextStyle& text_style);

/// One of `result_forms`: every tensor with its name, shape, meaning and what else it may be
/// called, then the settings. As json {"tensors": [{"name", "shape", "text", "axes", "aliases"}],
/// "settings": […]}; as markdown the table of docs/formats.md.
std::string names_text(std::string_view form, const TextStyle& text_style);

} // namespace mha::render
