#pragma once
// Effects of a model's parts as a table, CSV or JSON.

#include <mha/model/effects.hpp>
#include <mha/render/text.hpp>

namespace mha::render {

struct EffectsView {
  bool per_position = false; ///< a line a part and prediction, with text and position
  std::vector<Effect> deviations = {}; ///< of each line, beside it; or none
};

std::string effects_table(const std::vector<Effect>& effects, const EffectsView& view,
                          const TextStyle& look);
std::string effects_csv(const std::vector<Effect>& effects, const EffectsView& view,
                        char separator);
std::string effects_json(const std::vector<Effect>& effects, const EffectsView& view);

} // namespace mha::render
