#pragma once
// Half precision as an edit of a layer.

#include <mha/diagnose/hypotheses/change.hpp>

#include <array>

namespace mha {

/// The steps that an implementation in half precision rounds: those of each token, and those of
/// each query.
inline constexpr std::array rounded_projections{
    Stage::x,      Stage::q,      Stage::k,      Stage::v,     Stage::q_norm,
    Stage::k_norm, Stage::q_rope, Stage::k_rope, Stage::k_all, Stage::v_all};
inline constexpr std::array rounded_rows{Stage::scores,   Stage::scaled, Stage::capped,
                                         Stage::biased,   Stage::masked, Stage::weights,
                                         Stage::head_out, Stage::output, Stage::residual};

/// Rounds X, weights and biases.
void round_tensors(Layer& layer, DType to);
/// Gives a step's rounded result, unless it is already given or the layer does not have the step.
void round_step(Layer& layer, DType to, Stage stage);
/// Whether all numbers are of a short type (f16, bf16), and at least 8 of them use its last bit.
bool uses_type(const Tensor& tensor, DType to);

/// The reference computed in this type and differs in nothing else.
Change precision_change(DType dtype);

} // namespace mha
