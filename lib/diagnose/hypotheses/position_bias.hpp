#pragma once
// ALiBi by its slopes: for fits.

#include <mha/diagnose/hypotheses/change.hpp>

namespace mha {

/// Adds slopes[h] · (key − query) to head h, in place of the layer's ALiBi; `words`: the slopes.
Change alibi_slopes_change(const std::vector<double>& slopes, const std::string& words);

} // namespace mha
