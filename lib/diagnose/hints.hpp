#pragma once
// Hints of the numbers where no change of convention explains them.

#include <mha/diagnose/trials.hpp>

#include <string>
#include <vector>

namespace mha {

/// Sentences about the first stage that no change explains: which heads, keys or queries differ,
/// heads exchanged, quantised or other weights. `targets` in the order of the computation; the
/// layer in row form, with what was found changed. Empty where the numbers show nothing.
std::vector<std::string> hints_for(const Layer& layer, const std::vector<Target>& targets,
                                   Stage unexplained);

} // namespace mha
