#pragma once
// Stages and tensors of a layer by the names of places.

#include <mha/layer/names.hpp>
#include <mha/layer/stage.hpp>

#include <string_view>

namespace mha {

/// The tensor of a layer that a place names, "layers.3.W_q"; nullptr for a stage or another name.
const TensorInfo* tensor_of_place(std::string_view name);
/// The stage that a place's name means, or the first that is computed from the tensor that it
/// means. An unknown name throws Error with "did you mean".
StageOfPlace stage_or_tensor_named(std::string_view name);

} // namespace mha
