#pragma once
// What each head looks like, in numbers: measures of its weights, of what it adds to the output and
// of its projections. docs/stats.md has the formulas.

#include <mha/layer/select.hpp>
#include <mha/ranks/ranks.hpp>

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace mha {

/// One head's block W of a projection: its singular values in three numbers.
struct ProjectionMeasures {
  std::optional<double> rank;      ///< singular values above max · eps · max(rows, columns)
  std::optional<double> condition; ///< largest over smallest singular value
  std::optional<double> stiefel;   ///< ‖WᵀW − I‖_F: how far from orthonormal columns
};

/// The measures of one head; nothing where the layer does not tell. Means are over the rows that
/// are not fully masked, of all batch items (or the selected ones).
struct HeadMeasures {
  std::size_t head = 0;
  std::string kind; ///< what it looks like ("previous-token"); "" without weights

  std::optional<double> entropy, entropy_share, effective_keys;
  std::optional<double> first, self, previous, distance, window, diagonal;
  std::optional<double> induction, duplicate;
  std::optional<double> max, max_query, max_key;
  std::optional<double> one_key_rows, uniformity;
  std::optional<double> result_norm, result_share;
  std::optional<double> nearest_head, similarity;
  std::optional<double> masked_rows, row_sum_error;
  ProjectionMeasures q, k, v, o;

  // Beside the columns that DESIGN names.
  std::optional<double> max_batch;     ///< the batch item of max, where the input has them
  std::optional<double> window_keys;   ///< share of the visible keys that `window` covers
  std::optional<double> largest_logit; ///< of masked, sinks included
  std::optional<double> overflow_f32, overflow_f16; ///< 1: the naive softmax overflows
};

/// One column of the numbers: help, tables, files and sorting loop over these.
struct Measure {
  enum class Form : std::uint8_t { number, count, boolean };
  std::string_view name; ///< "entropy_share"
  std::string_view text; ///< what it is, in a line
  Form form = Form::number;
  std::optional<double> (*of)(const HeadMeasures& head) = nullptr;
};
/// All of them, in the order of the columns; layer, head and kind stand before them.
std::span<const Measure> measures();
/// Throws Error with "did you mean".
const Measure& measure_named(std::string_view name);

/// A word for what a head looks like, and when it is used: the first whose threshold is reached.
struct HeadKind {
  std::string_view name; ///< "previous-token"
  std::string_view text; ///< "previous ≥ 0.5"
  bool (*holds)(const HeadMeasures& head) = nullptr;
};
/// In the order in which they are tried; the last one always holds.
std::span<const HeadKind> head_kinds();
/// Throws Error with "did you mean".
const HeadKind& head_kind_named(std::string_view name);

/// What is measured.
struct MeasureRequest {
  Selection selection;    ///< batch items and queries that are measured, heads that are returned
  std::size_t window = 8; ///< keys within ±window of the query count for `window`
  std::size_t threads = 0;
  Ranks* ranks = nullptr; ///< who shares the work; null: nobody
};

/// The heads of a layer.
struct LayerMeasures {
  std::vector<HeadMeasures> heads; ///< in the order of the selection
  std::string overflow;            ///< where numbers left their type's range, in words, or ""
  std::vector<std::string> notes;  ///< what a reader should know: a library that is missing …
};

/// Computes the layer once and measures its heads. Never holds a T × S matrix. The results have the
/// same bits whatever the threads and the ranks; they are the first rank's, others get no heads.
/// Throws Error where the layer has neither weights nor head_result, nor projections.
LayerMeasures measure_heads(const Layer& layer, const MeasureRequest& request = {});

} // namespace mha
