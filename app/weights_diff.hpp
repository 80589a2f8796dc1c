#pragma once
// diff A B --weights: two checkpoints, tensor by tensor.

#include "options.hpp"
#include "output.hpp"

namespace mha::app {

/// Compares and prints; the exit code: 0 equal or close, 1 different. Throws UsageError where
/// something else than two sources is given.
int diff_two_checkpoints(const RunRequest& request, const std::vector<std::string>& against,
                         const OutputOptions& output, const Common& common);

} // namespace mha::app
