#pragma once
// Two checkpoints compared tensor by tensor, as text.

#include <mha/compare/weights.hpp>
#include <mha/render/text.hpp>

#include <string>

namespace mha::render {

/// One of `result_forms`: a line a tensor; as json one object.
std::string weights_text(const WeightsDiff& diff, std::string_view form,
                         const TextStyle& text_style);

} // namespace mha::render
