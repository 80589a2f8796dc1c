#pragma once
// Windows by their length: for fits.

#include <mha/diagnose/hypotheses/change.hpp>

namespace mha {

/// A query sees its own key and `left` before it.
Change window_change(const Layer& layer, std::int64_t left);

} // namespace mha
