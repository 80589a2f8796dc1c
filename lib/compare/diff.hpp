#pragma once
// The first step of a computation that differs from a reference, and the steps that inherit its
// difference.

#include <functional>
#include <string_view>

#include <mha/compare/compare.hpp>

namespace mha {

enum class DiffStatus : std::uint8_t {
  equal,     ///< the same bits
  close,     ///< within tolerance; or a right step on other inputs; or off by rounding
  first,     ///< the first step that differs
  inherited, ///< a later step that differs
  same,      ///< the same tensor of the same file on both sides, which proves nothing
};
/// "equal", "close", "first", "inherited", "same tensor".
std::string_view name_of(DiffStatus status);

/// Distances from float64.
struct FromExact {
  double ours = 0, theirs = 0; ///< the largest |difference| of the stage's elements
  /// The reference's largest distance in units of what rounding in its precision explains: at
  /// most 1.
  double ratio = 0;
  bool is_rounding = true; ///< rounding explains all distances, and the stage does not differ
  DType precision = DType::f32; ///< whose rounding that is: the coarser of both sides'
};

/// One compared stage.
struct StageDiff {
  Stage stage = Stage::x;
  DiffStatus status = DiffStatus::equal;
  Difference difference;
  Tolerance tolerance;
  double rounding = 0; ///< the most that rounding allowed a number beyond the tolerance
  /// In stages out of tolerance: whether the step is wrong by itself, that is, disagrees even when
  /// computed from the reference's own earlier stages. Nothing if that cannot be computed.
  std::optional<bool> own;
  std::vector<Stage> from;    ///< the stages of the reference that it was recomputed from
  std::vector<Stage> between; ///< the layer's steps between those and this one
  std::optional<Difference> recomputed;
  /// In a whole model, where the error is rounding that has grown from layer to layer: the most
  /// that a number was allowed.
  std::optional<double> pass_rounding;
  /// Both sides' distances from float64, if asked for (PassContext::every_stage).
  std::optional<FromExact> exact;
  const ReferenceStage* reference = nullptr;
  /// The coarsest type of the reference's stage and of the stages it was computed from.
  DType precision = DType::f32;
};

struct Diff {
  std::vector<StageDiff> stages;         ///< in the order of the computation
  std::optional<Stage> first;            ///< nothing if all stages are equal or close
  std::vector<std::string> not_compared; ///< stages of the reference that the sources lack

  bool follows = false; ///< out of tolerance because an earlier layer is
  /// For a layer after one that differs: whether it agrees when computed from the reference's own
  /// stream, and the first stage that does not. Nothing if the reference has too little to decide.
  std::optional<bool> sound;
  std::optional<Stage> by_itself;

  bool equal() const { return !first && !follows; } ///< every stage is equal or close
};

/// A layer's place in a model's pass, and the same pass in float64.
struct PassContext {
  bool whole = true;    ///< the pass starts at a text, so rounding grows in the earlier layers
  bool earlier = false; ///< an earlier layer differs, and differences here follow from it
  /// Computes stages of the layer by a pass in float64, as far as it can; called at most once.
  std::function<std::map<Stage, Tensor>(const std::vector<Stage>&)> exact;
  /// The output of the layer before in the reference if it agrees within rounding, else null.
  const Tensor* agreed = nullptr;
  bool every_stage = false; ///< every stage is compared with float64, not only those that differ
  ComputeLayer compute = mha::compute; ///< how the layer is computed

  /// Whether a resid_pre is `agreed`, the resid_post of the layer before: its rounding was judged
  /// there, and is not judged again.
  bool has_agreed(const Tensor& resid_pre) const;
};

/// Compares every stage of a settled reference with the layer's. Default tolerances are those of
/// the reference's own precision. Where a stage exceeds them, each number is allowed the rounding
/// of the whole chain of steps (judge_rounding). A stage out of tolerance is also computed from the
/// reference's own earlier stages, and a step that agrees then is right. A step that is off by
/// rounding alone is not the first if a later one is wrong by far more. In a whole model's pass, a
/// difference is close if rounding up to that stage explains it. `reference` must outlive the
/// result.
Diff diff(const Layer& layer, const Reference& reference, const Tolerances& tolerances = {},
          std::size_t threads = 0, const PassContext* pass = nullptr);

/// Whether a stage may be compared. If the files have results and no weights, a stage between given
/// ones, or computed from such a stage, would follow settings that are not known.
bool may_be_compared(const Layer& layer, Stage stage);
/// The layer with a stage given instead of computed. `value` has the shape layer.shape_of(stage)
/// and any floating type.
Layer with_given(Layer layer, Stage stage, const Tensor& value);
/// The layer with a given stage computed again.
Layer without_given(Layer layer, Stage stage);
/// The layer with every stage of the reference before `stage` given, so that only the step from the
/// reference's own inputs is computed.
Layer with_reference_before(const Layer& layer, Stage stage, const Reference& reference);

} // namespace mha
