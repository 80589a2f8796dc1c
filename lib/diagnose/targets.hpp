#pragma once
// A reference's stages, as diagnose judges a layer by them.

#include <mha/compare/reference.hpp>
#include <mha/diagnose/hypotheses/change.hpp>

#include <map>
#include <optional>
#include <vector>

namespace mha {

struct Diagnosis;

/// What a stage is compared with.
struct Target {
  Stage stage = Stage::output;
  Tensor theirs;             ///< in the form of Layer::given, in the layer's precision
  double tolerance = 0;      ///< see agreement_of
  DType stored = DType::f32; ///< the type of its numbers
  double resolution = 0;     ///< half of the last digit of numbers that were typed
  /// The short type that the reference computes in; nothing: none.
  std::optional<DType> half;
};

/// Stages of a reference that the layer computes, in the order of the computation. Throws Error
/// where it has none.
std::vector<Target> targets_of(const Layer& layer, const std::vector<ReferenceStage>& reference);

/// The reference computes in a short type where most of its stages hold such numbers only: then all
/// of them are compared so.
std::optional<DType> short_type_of(std::vector<Target>& targets);

/// Stages, and the short type that their numbers are of.
using ShortSteps = std::map<Stage, DType>;

/// What norms and the feed-forward's activation give, of those in a short type.
ShortSteps short_steps_of(const std::vector<Target>& targets);
/// Of the changes, those that round these steps, where everything else agrees. What norms give was
/// rounded where a later stage is off by it, and else as it was saved.
std::vector<Change> roundings_of(const ShortSteps& steps, const std::vector<Change>& changes,
                                 const Diagnosis& diagnosis);

} // namespace mha
