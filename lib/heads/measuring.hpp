#pragma once
// Measuring of heads in steps, for callers that compute the layer for other purposes as well.

#include <mha/heads/measure_results.hpp>
#include <mha/heads/measures.hpp>
#include <mha/observe/overflow.hpp>
#include <mha/observe/several.hpp>
#include <mha/observe/trace.hpp>
#include <mha/ranks/ranks.hpp>

#include <optional>

namespace mha {

/// Usage: compute the layer for first(), with every head of the request's batch items and queries;
/// then rest() for second(), unless that is null; then finish() returns the measures. head_result
/// is computed from stages that first() has kept, so that nothing is computed twice.
class HeadMeasuring {
public:
  /// The layer and the request must outlive this. Throws Error if there is nothing to measure.
  HeadMeasuring(const Layer& layer, const MeasureRequest& request);
  HeadMeasuring(const HeadMeasuring&) = delete;
  HeadMeasuring& operator=(const HeadMeasuring&) = delete;

  /// The first observer. It may want nothing.
  Observer& first() { return first_; }
  /// What to compute for it: every head, since the concatenation and similarity need them all.
  Selection selection() const;
  /// Call when `part` of the plan was computed for first().
  void end_first(const Plan& part);
  /// The second observer, for the blocks of the same part, or null.
  Mergeable* second() { return results_ ? &*results_ : nullptr; }
  const Layer& rest() const { return rest_; }
  /// Together: the first rank gets the sums that the others have measured.
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
