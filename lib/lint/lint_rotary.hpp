#pragma once
// Checks of rotary scaling.

#include <mha/lint/lint_masks.hpp>

namespace mha {

/// A frequency scaling that scales nothing, or by a length that is not given.
void find_idle_rope_scaling(const LintSubject& subject, Texts& texts);

/// g² of latent attention: DeepSeek multiplies the scale by (0.1 mscale_all_dim ln factor + 1)²; 1
/// where the layer's rotary scaling has none.
double scale_of_mscale(const Settings& settings);

} // namespace mha
