#pragma once
// Decides number by number whether a difference is rounding.

#include <mha/compare/compare.hpp>
#include <mha/compare/reference.hpp>
#include <mha/compare/spread.hpp>

#include <array>
#include <optional>

namespace mha {

/// A stage of another implementation to judge.
struct Rounded {
  Stage stage = Stage::x;
  Tensor values;             ///< in the form of Layer::given
  DType stored = DType::f32; ///< the type of its numbers
  double resolution = 0;     ///< half of the last typed digit; 0 if the numbers were not typed
};

/// A row of numbers that are judged together: the root mean square of their errors in units of
/// their expected rounding, and the root mean square of that rounding.
struct RoundedRow {
  double error = 0, expected = 0;
};

/// The judgement of a difference as rounding.
struct RoundingVerdict {
  bool within = true; ///< all of the difference is rounding
  /// The largest |ours − theirs| in units of the allowed error; infinite for NaN.
  double farthest = 0;
  std::vector<RoundedRow> rows; ///< without padding
  /// Among few rows, one is off by a factor, and by little else.
  bool scaled = false;
  /// The allowed error of each number, float32 in the form of Layer::given; 0 in groups that are
  /// wrong as a whole.
  Tensor allowed;
};

/// A number is allowed the rounding of its stored type, half of its last digit if it was typed, and
/// `spreads` standard deviations: the errors of many roundings are normal, and one in 10⁸ numbers
/// exceeds that. Variances are first-order, so one number in 10,000 may exceed it by up to four
/// times. No row, head or whole stage may be off by more than usual, because a small mistake shows
/// there.
RoundingVerdict judge_rounding(const Layer& layer, const Rounded& theirs, const Tensor& ours,
                               const std::vector<double>& variances);

/// A stage of a whole model's pass, and the same stage in float64: the distance of the two measures
/// how far rounding has grown in the layers before.
struct GrownRounding {
  Tensor ours, exact;
};

/// Judges the stages of a layer one after the other, by the roundings of implementations in this
/// precision. Variances found for one stage serve the next.
class RoundingJudge {
public:
  /// `layer` is in row form, with a batch axis; `steps.kept` is the precision. Fused kernels of a
  /// half type keep scores … masked in float32; others round them. Rounded scores are allowed if
  /// the rows that they move show it in general. Few rows do not show it: among them, a row that is
  /// off by a factor is not explained by its scores, each of which turns it another way.
  RoundingJudge(Layer layer, RoundedSteps steps, std::size_t threads);
  RoundingJudge(const RoundingJudge&) = delete;
  RoundingJudge& operator=(const RoundingJudge&) = delete;

  /// Nothing if the layer cannot compute the stage, or would need too much memory.
  std::optional<RoundingVerdict> judge(const Rounded& theirs, const Tensor& ours,
                                       const GrownRounding* grown = nullptr);
  /// Whether a number is clearly off by more than this tolerance and rounding allow, so that no
  /// verdict is needed. False if a quick look does not decide.
  bool is_far(const Rounded& theirs, const Tensor& ours, const GrownRounding& grown,
              Tolerance tolerance);

private:
  bool can_judge(const Rounded& theirs, const Tensor& ours) const;
  std::vector<double> variances(Stage stage, const GrownRounding* grown, bool scores);
  RoundingVerdict judged(const Rounded& theirs, const Tensor& ours, const GrownRounding* grown,
                         bool scores);

  const Layer layer_;
  RoundedSteps steps_;
  std::size_t threads_;
  std::array<std::optional<Variances>, 2> variances_; ///< with scores in float32, with rounded ones
};

/// The same for stages in the form that users see, and so is the allowed error.
class ShownRoundingJudge {
public:
  ShownRoundingJudge(const Layer& layer, RoundedSteps steps, std::size_t threads);

  /// `ours` has the shape layer.shape_of(stage). `allowed` is empty if no number is allowed
  /// anything.
  std::optional<RoundingVerdict> judge(const ReferenceStage& theirs, const Tensor& ours,
                                       const GrownRounding* grown = nullptr);
  /// See RoundingJudge::is_far.
  bool is_far(const ReferenceStage& theirs, const Tensor& ours, const GrownRounding& grown,
              Tolerance tolerance);

private:
  Tensor own_form(Stage stage, const Tensor& value) const;

  const Layer& layer_;
  RoundingJudge rows_;
};

} // namespace mha
