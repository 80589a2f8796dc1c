#pragma once
// Whether a difference is rounding, number by number.

#include <mha/compare/compare.hpp>
#include <mha/compare/reference.hpp>
#include <mha/compare/spread.hpp>

#include <array>
#include <optional>

namespace mha {

/// A stage of another implementation, as it is judged.
struct Rounded {
  Stage stage = Stage::x;
  Tensor values;             ///< in the form of Layer::given
  DType stored = DType::f32; ///< the type that its numbers are of
  double resolution = 0;     ///< half of the last digit that was typed; 0: none
};

/// A row of numbers that are judged together: the root of the mean square of their errors, in what
/// rounding is expected to be, and of what that is.
struct RoundedRow {
  double error = 0, expected = 0;
};

/// What of a difference is rounding.
struct RoundingVerdict {
  bool within = true; ///< all of it
  double farthest =
      0; ///< the largest |ours − theirs| in what its number is allowed; infinite for NaN
  std::vector<RoundedRow> rows; ///< none of padding
  /// Of few rows, one that is off by a factor, and by little else.
  bool scaled = false;
  /// What each number is allowed, in float32 and the form of Layer::given; 0 in what is wrong as a
  /// whole.
  Tensor allowed;
};

/// A number is allowed the rounding of what was stored, half of its last digit if it was typed, and
/// `spreads` times the root of its variance: errors of many roundings are normal, and of 10⁸
/// numbers one is beyond. Variances are of the first order: one number in 10,000 may be beyond by
/// up to four times as much. No row, head, or stage as a whole may be off by more than usual: there
/// a small mistake shows.
RoundingVerdict judge_rounding(const Layer& layer, const Rounded& theirs, const Tensor& ours,
                               const std::vector<double>& variances);

/// A stage of a whole model's pass: rounding in the layers before has grown to some of ours'
/// distance from the same pass in float64, in units of the layer's type.
struct GrownRounding {
  Tensor ours, exact;
};

/// The same of stages that a layer computes, one after the other: by what implementations in this
/// precision round. What is found on the way to one stage serves the next.
class RoundingJudge {
public:
  /// `layer` in row form, with a batch axis; `steps.kept` is the precision. A half type's fused
  /// kernels keep scores … masked in float32, and others round them: that is granted where the
  /// rows that it moves show it in general. Few rows show nothing in general: there a row that is
  /// off by a factor is not off by its scores, each of which turns it another way.
  RoundingJudge(Layer layer, RoundedSteps steps, std::size_t threads);
  RoundingJudge(const RoundingJudge&) = delete;
  RoundingJudge& operator=(const RoundingJudge&) = delete;

  /// Nothing where the layer cannot compute the stage, or would need too much memory.
  std::optional<RoundingVerdict> judge(const Rounded& theirs, const Tensor& ours,
                                       const GrownRounding* grown = nullptr);
  /// Whether a number is off by so much that neither this tolerance nor rounding allows it: then no
  /// verdict is needed. Where that is not seen at once, it does not say so.
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
  std::array<std::optional<Variances>, 2> variances_; ///< with scores of float32, with rounded ones
};

/// The same of stages as users see them, and so is what is allowed.
class ShownRoundingJudge {
public:
  ShownRoundingJudge(const Layer& layer, RoundedSteps steps, std::size_t threads);

  /// `ours` has the shape layer.shape_of(stage). Where no number is allowed anything, `allowed` is
  /// empty.
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
