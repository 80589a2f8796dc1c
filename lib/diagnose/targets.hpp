#pragma once
// The stages of a reference by which a diagnosis judges a layer.

#include <mha/compare/reference.hpp>
#include <mha/diagnose/hypotheses/change.hpp>

#include <map>
#include <optional>
#include <vector>

namespace mha {

struct Diagnosis;

/// The reference's value of a stage.
struct Target {
  Stage stage = Stage::output;
  Tensor theirs;             ///< in the form of Layer::given, in the layer's precision
  double tolerance = 0;      ///< see agreement_of
  DType stored = DType::f32; ///< the type of its numbers
  double resolution = 0;     ///< half of the last digit of typed numbers
  /// The short type in which the reference computes, if any.
  std::optional<DType> half;
};

/// The stages of a reference that the layer can compute, in the order of the computation. Throws
/// Error if there is none.
std::vector<Target> targets_of(const Layer& layer, const std::vector<ReferenceStage>& reference);

/// The short type of the reference, if most stages hold only such numbers, else none. Sets it in
/// all targets.
std::optional<DType> short_type_of(std::vector<Target>& targets);

/// Stages whose numbers are of a short type, and this type.
using ShortSteps = std::map<Stage, DType>;

/// The results of norms and of the feed-forward's activation that a reference with longer numbers
/// keeps in a short type.
ShortSteps short_steps_of(const std::vector<Target>& targets);
/// The changes that round these steps, if everything else agrees. Results of norms count as rounded
/// in the computation if a later stage differs by it; otherwise only the saved tensor was rounded.
std::vector<Change> roundings_of(const ShortSteps& steps, const std::vector<Change>& changes,
                                 const Diagnosis& diagnosis);

} // namespace mha
