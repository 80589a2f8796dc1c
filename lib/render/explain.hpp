#pragma once
// An explanation as text, and as JSON.

#include <mha/explain/explain.hpp>
#include <mha/render/text.hpp>

namespace mha::render {

struct ExplainStyle {
  TextStyle text_style;
  std::size_t top = 10;           ///< keys that a long row lists
  std::size_t digits = 4;         ///< --precision: significant ones
  std::optional<std::size_t> key; ///< whose score is written out; nothing: the largest weight's
  std::string layer;              ///< put before the title where several layers are explained
};

/// The whole explanation, ending in a line break.
std::string explain_text(const Explanation& explanation, const ExplainStyle& style);

/// One object with every number in full precision (docs/maths.md describes it), without a line
/// break at its end; `layer` is left out where it is "".
std::string explain_json(const Explanation& explanation, const std::string& layer = {});

} // namespace mha::render
