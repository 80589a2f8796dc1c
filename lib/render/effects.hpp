#pragma once
// Effects of a model's parts as a table.

#include <mha/model/effects.hpp>
#include <mha/render/table.hpp>

namespace mha::render {

struct EffectsView {
  bool per_position = false;           ///< a line a part and prediction, with text and position
  std::vector<Effect> deviations = {}; ///< of each line, beside it; or none
  std::string answer = "the clean run's most probable token"; ///< whose logit is followed
};

/// A line a part: the numbers that some part has for eyes, all of them for programs. `width` is
/// the screen's.
Table effects_table(const std::vector<Effect>& effects, const EffectsView& view, std::size_t width);

} // namespace mha::render
