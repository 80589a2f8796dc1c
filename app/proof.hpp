#pragma once
// The command that shows what a diagnosis claims, run before it is printed.

#include "options.hpp"
#include <mha/diagnose/diagnose.hpp>

namespace mha::app {

/// The words of `mha-inspect diff …` with the options of every change, which then finds the
/// reference equal or close: it was computed so. Where the reference is as close as rounding lets
/// it be and diff's own tolerance is narrower, with the tolerance that it takes. "" where a change
/// has no option, or the numbers stay apart.
std::string proof_of(const RunRequest& request, const std::string& layer,
                     const Diagnosis& diagnosis, const std::vector<std::string>& against,
                     const Common& common);

} // namespace mha::app
