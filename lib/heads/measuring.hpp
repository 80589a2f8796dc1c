#pragma once
// Measuring of heads, step by step, for a caller that computes the layer for more than that.

#include <mha/heads/measure_results.hpp>
#include <mha/heads/measures.hpp>
#include <mha/observe/overflow.hpp>
#include <mha/observe/several.hpp>
#include <mha/observe/trace.hpp>
#include <mha/ranks/ranks.hpp>

#include <optional>

namespace mha {

/// The layer is computed for first(), with every head of the request's batch items and queries;
/// then rest() for second(), if there is one; then finish() tells the measures. head_result starts
/// at what first() has kept, so that nothing is computed twice.
class HeadMeasuring {
public:
  /// The layer and the request outlive this. Throws Error where there is nothing to measure.
  HeadMeasuring(const Layer& layer, const MeasureRequest& request);
  HeadMeasuring(const HeadMeasuring&) = delete;
  HeadMeasuring& operator=(const HeadMeasuring&) = delete;

  /// What is looked at while the layer is computed. It may want nothing.
  Observer& first() { return first_; }
  /// What has to be computed for it: every head, as the concatenation and similarity need them.
  Selection selection() const;
  /// `part` of the plan was computed for first().
  void end_first(const Plan& part);
  /// What is computed next, in the blocks of the same part; null: nothing.
  Mergeable* second() { return results_ ? &*results_ : nullptr; }
  const Layer& rest() const { return rest_; }
  /// Together: the first rank gets what the others have measured of the plan.
  void gather_from(Ranks& ranks, const Plan& plan);
  LayerMeasures finish(Ranks& ranks);

private:
  Layer layer_; ///< its observers see rows, whatever the files' orientation
  const MeasureRequest& request_;
  StageSet available_;
  bool measures_stages_;
  std::optional<RowMeasures> rows_;
  std::optional<KeptTokens> tokens_;
  OverflowWatch watch_;
  Several first_;
  StageSet kept_;
  Layer rest_;
  std::optional<ResultMeasures> results_;
};

/// Computes the measures q, k, v and o of each head whose weights the layer has. The processes of
/// a parallel run (`ranks`, not ranks of matrices) share the work: each calls this function with
/// the same heads and computes some of them, and the first process receives all results. Returns
/// false, and leaves `heads` unchanged, if the computation needs LAPACK and LAPACK is missing.
bool measure_projections(const Layer& layer, std::span<HeadMeasures> heads, std::size_t threads,
                         Ranks& ranks);

} // namespace mha
