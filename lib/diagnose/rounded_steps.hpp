#pragma once
// Steps that a reference of longer numbers keeps in a short type: their own numbers show it, and
// agree within that rounding.

#include <mha/diagnose/diagnose.hpp>
#include <mha/diagnose/trials.hpp>

#include <map>

namespace mha {

/// Stages, and the short type that their numbers are of.
using ShortSteps = std::map<Stage, DType>;

/// What norms and the feed-forward's activation give, of those in a short type.
ShortSteps short_steps_of(const std::vector<Target>& targets);
/// Of the changes, those that round these steps, where everything else agrees. What norms give was
/// rounded where a later stage is off by it, and else as it was saved.
std::vector<Change> roundings_of(const ShortSteps& steps, const std::vector<Change>& changes,
                                 const Diagnosis& diagnosis);

} // namespace mha
