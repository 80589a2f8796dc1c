#pragma once
// Formulas of a layer's stages, in symbols: those that were computed, not the table's.

#include <mha/layer/layer.hpp>

namespace mha {

/// The table's formula of a stage, whatever a layer has: "x W_q + b_q", or "W_q x + b_q" where
/// tokens are columns.
std::string_view general_formula(Stage stage, bool columns);

/// "x W_q" without b_q, "X" where the projection is the identity, "rms_norm(X)" under an input
/// norm, "given" for a stage that starts the computation; else the table's formula.
std::string formula_of(const Layer& layer, Stage stage);

} // namespace mha
