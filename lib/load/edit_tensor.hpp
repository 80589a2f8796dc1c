#pragma once
// Edits of a tensor of a layer, written as those of stages: 'X[*,1,0] = 5', 'layers.3.W_q[0] *= 2'.

#include <mha/load/edit.hpp>

namespace mha {

/// Whether an edit's place is in a tensor.
bool is_of_tensor(const StageEdit& edit);
/// Changes the layer's tensor, and adds a patch without a value to each stage that reads it, by
/// which it is known to have been read. Throws Error where the edit does not fit.
IsRead edit_tensor(Layer& layer, const StageEdit& edit, std::size_t number);

} // namespace mha
