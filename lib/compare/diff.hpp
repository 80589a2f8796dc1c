#pragma once
// Which step of a computation is the first that differs from a reference, and which merely inherit.

#include <functional>
#include <string_view>

#include <mha/compare/compare.hpp>

namespace mha {

enum class DiffStatus : std::uint8_t {
  equal,     ///< the same bits
  close,     ///< within tolerance; or a sound step, or one off by rounding, on inputs that are
  first,     ///< the first step that is not
  inherited, ///< after it
  same,      ///< the same tensor of the same file on both sides, which says nothing
};
/// "equal", "close", "first", "inherited", "same tensor".
std::string_view name_of(DiffStatus status);

/// Distances from float64.
struct FromExact {
  double ours = 0, theirs = 0; ///< the largest |difference| of the stage's elements
  /// The reference's, number by number, in what rounding in its precision explains: at most 1.
  double ratio = 0;
  bool is_rounding = true; ///< that it explains all of them, and the stage does not differ
};

/// One compared stage.
struct StageDiff {
  Stage stage = Stage::x;
  DiffStatus status = DiffStatus::equal;
  Difference difference;
  Tolerance tolerance;
  double rounding = 0; ///< the most that a number was allowed beside it, where that was asked
  /// Of stages out of tolerance: whether the step disagrees even when it is computed from the
  /// reference's own earlier stages: it is wrong by itself. Nothing where that cannot be computed.
  std::optional<bool> own;
  std::vector<Stage> from;    ///< the stages of the reference that it was recomputed from
  std::vector<Stage> between; ///< the layer's steps after those and before it
  std::optional<Difference> recomputed;
  /// Where it is in a whole model and off by what grows from rounding, layer by layer: the most
  /// that a number was allowed.
  std::optional<double> pass_rounding;
  /// How far both are from float64, where that was asked for (PassContext::every_stage).
  std::optional<FromExact> exact;
  const ReferenceStage* reference = nullptr;
  /// The coarsest type that the reference's stage, or what it was computed from, is of.
  DType precision = DType::f32;
};

struct Diff {
  std::vector<StageDiff> stages;         ///< in the order of the computation
  std::optional<Stage> first;            ///< nothing: equal or close
  std::vector<std::string> not_compared; ///< stages of the reference that the sources lack

  bool follows = false; ///< out of tolerance, as the layers before it are
  /// Of a layer behind one that differs: whether it agrees when it is computed from the reference's
  /// own stream, and the first stage that does not. Nothing where the reference does not tell.
  std::optional<bool> sound;
  std::optional<Stage> by_itself;

  bool equal() const { return !first && !follows; } ///< every stage is equal or close
};

/// Where a layer stands in a pass, and what the same pass gives in float64.
struct PassContext {
  bool whole = true;    ///< from a text on, through the layers before: rounding grows in them
  bool earlier = false; ///< a layer before it differs: what is out of tolerance follows from that
  /// Stages of the layer as a pass in float64 has them, those that it can compute; called once at
  /// most.
  std::function<std::map<Stage, Tensor>(const std::vector<Stage>&)> exact;
  /// What the layer before hands on in the reference, where that agrees within rounding; null where
  /// it differs, or is not there.
  const Tensor* agreed = nullptr;
  bool every_stage = false; ///< every stage is compared with float64, not those that differ alone
  ComputeLayer compute = mha::compute; ///< how the layer is computed

  /// Whether a resid_pre is that tensor: resid_post of one layer is resid_pre of the next, and its
  /// chain of rounded steps is the layer's before. Then it is not judged again.
  bool has_agreed(const Tensor& resid_pre) const;
};

/// Compares every stage of a settled reference with the layer's. Default tolerances are those of
/// the reference's own precision; each number of a stage outside is allowed what rounding makes of
/// it along the chain of steps (judge_rounding). A stage out of tolerance is also computed from the
/// reference's own stages before it: a step that agrees then is sound. A step that is off by
/// rounding alone is not the first where a later one is wrong by far more. In a whole model's pass,
/// a difference no larger than what rounding makes of the text up to there is close. `reference`
/// must outlive the result.
Diff diff(const Layer& layer, const Reference& reference, const Tolerances& tolerances = {},
          std::size_t threads = 0, const PassContext* pass = nullptr);

/// Whether a stage may be compared: of results alone, one that is between given ones, or is
/// computed from such a one, would follow settings that are not known.
bool may_be_compared(const Layer& layer, Stage stage);
/// The layer with a stage given instead of computed; `value` as users see it: of the shape
/// layer.shape_of(stage), any floating type.
Layer with_given(Layer layer, Stage stage, const Tensor& value);
/// The layer with a stage computed that was given.
Layer without_given(Layer layer, Stage stage);
/// The layer with every stage of the reference before `stage` given: what is left to compute is the
/// step from the reference's own inputs.
Layer with_reference_before(const Layer& layer, Stage stage, const Reference& reference);

} // namespace mha
