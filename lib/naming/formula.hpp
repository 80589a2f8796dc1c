#pragma once
// Formulas of a layer's stages, in symbols: those that were computed, not the table's.

#include <mha/layer/layer.hpp>

namespace mha {

/// "x W_q" without b_q, "X" where the projection is the identity, "rms_norm(X)" under an input
/// norm, "given" for a stage that starts the computation; else the table's formula.
std::string formula_of(const Layer& layer, Stage stage);

} // namespace mha
