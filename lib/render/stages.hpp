#pragma once
// The table of stages as text.

#include <mha/layer/layer.hpp>
#include <mha/render/text.hpp>

namespace mha::render {

/// One of `result_forms`; as markdown the page docs/stages.md. With a layer: its concrete shapes,
/// and which stages it has.
std::string stages_text(const Layer* layer, std::string_view form, const TextStyle& text_style);

} // namespace mha::render
