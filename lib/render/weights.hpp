#pragma once
// Two checkpoints compared tensor by tensor, as text.

#include <mha/compare/weights.hpp>
#include <mha/render/text.hpp>

#include <string>

namespace mha::render {

std::string weights_table(const WeightsDiff& diff, const TextStyle& text_style);
std::string weights_json(const WeightsDiff& diff);
/// A line a tensor, the first one says what the columns are.
std::string weights_csv(const WeightsDiff& diff);

} // namespace mha::render
