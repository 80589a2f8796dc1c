#pragma once
// A soft cap of the scores, of any size.

#include <mha/diagnose/hypotheses/change.hpp>

namespace mha {

/// cap · tanh(scaled / cap): another cap than the layer's, or one where the layer has none.
Change softcap_change(const Layer& layer, double cap);

} // namespace mha
