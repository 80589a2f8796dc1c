#pragma once
// The table of stages as text: for eyes, as JSON, and as the Markdown that docs/stages.md is made
// of.

#include <mha/layer/layer.hpp>
#include <mha/render/text.hpp>

namespace mha::render {

/// With a layer: its concrete shapes, and which stages it has.
std::string stages_table(const Layer* layer, const TextStyle& text_style);
std::string stages_json(const Layer* layer);
std::string stages_markdown(const Layer* layer);

} // namespace mha::render
