#pragma once
// From the last layer's stream to logits.

#include <mha/layer/block.hpp>
#include <mha/schedule/stream.hpp>

namespace mha {

/// embed as it is; final = norm(resid_post); logits = final W_U + b_U, with a masked model's dense
/// layer, activation and norm between, scaled and capped where the model does so.
template <class T> void end_model(const ModelEnds& ends, Stream<T>& run);

} // namespace mha
