#pragma once
// Half precision as an edit of a layer.

#include <mha/diagnose/hypotheses/change.hpp>

#include <array>

namespace mha {

/// The steps that an implementation in half precision rounds, token by token and query by query.
inline constexpr std::array rounded_projections{
    Stage::x,      Stage::q,      Stage::k,      Stage::v,     Stage::q_norm,
    Stage::k_norm, Stage::q_rope, Stage::k_rope, Stage::k_all, Stage::v_all};
inline constexpr std::array rounded_rows{Stage::scores,   Stage::scaled, Stage::capped,
                                         Stage::biased,   Stage::masked, Stage::weights,
                                         Stage::head_out, Stage::output, Stage::residual};

/// X, weights and biases rounded.
void round_tensors(Layer& layer, DType to);
/// A step's result is given, rounded; nothing where it is given or there is none.
void round_step(Layer& layer, DType to, Stage stage);
/// Whether all numbers are of a short type (f16, bf16), and use its last bit: some 8 at least.
bool uses_type(const Tensor& tensor, DType to);

/// The reference computed in this type, and did nothing else otherwise.
Change precision_change(DType dtype);

} // namespace mha
