#pragma once
// Dropout, which is seen in the reference's weights.

#include <mha/diagnose/hypotheses/change.hpp>

#include <optional>

namespace mha {

/// The reference's weights are ours / (1 − p) or 0, p estimated; nothing if they are not.
/// Both (B, H, T, S).
std::optional<Change> dropout_change(const Tensor& ours, const Tensor& theirs);

} // namespace mha
