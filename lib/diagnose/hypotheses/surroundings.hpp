#pragma once
// Tools of edits around attention: products and blocks of a whole model, changed.

#include <mha/diagnose/hypotheses/edit.hpp>

namespace mha {

/// The layer's own copy of its block, to be changed.
TransformerBlock& own_block(Layer& layer);
/// The same of a model's ends.
ModelEnds& own_ends(Layer& layer);

/// The map whose output i is output from(i).
template <class F> LinearMap with_outputs(const LinearMap& map, F from) {
  return {columns_from(map.W, from), columns_from(map.b, from)};
}

} // namespace mha
