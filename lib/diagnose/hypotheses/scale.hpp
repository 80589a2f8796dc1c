#pragma once
// Scales by number: what a fit finds is said with these.

#include <mha/diagnose/hypotheses/change.hpp>

namespace mha {

/// The scores are multiplied by another number; `shown` is what the setting takes, `expression` its
/// words.
Change scale_change(const Layer& layer, std::string id, double scale, std::string_view shown,
                    std::string_view expression);

/// What a scale is, where it is near a known expression: "1/√d_k"; else "".
std::string name_of_scale(const Layer& layer, double scale);

} // namespace mha
