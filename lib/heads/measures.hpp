#pragma once
// Measures of each head: of its weights, of its addition to the output and
// of its projections. docs/stats.md has the formulas.

#include <mha/layer/select.hpp>
#include <mha/observe/compute.hpp>
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

/// A number for each of the measures that tell where the weight lies.
struct PlaceMeasures {
  std::optional<double> first, self, previous, next, last, separator, window, diagonal;
  std::optional<double> induction, duplicate;
};

/// The measures of one head; nothing where the layer does not tell. Means are over the rows that
/// may see more than one key, of all batch items (or the selected ones).
struct HeadMeasures : PlaceMeasures {
  std::size_t head = 0;
  std::optional<std::size_t> batch; ///< the batch item, where each is measured by itself
  std::optional<std::size_t> query; ///< the query, where each is measured by itself
  std::string kind;                 ///< what it looks like ("previous-token"); "" without weights

  std::optional<double> entropy, entropy_share, effective_keys;
  std::optional<double> distance;
  std::optional<double> max, max_query, max_key;
  std::optional<double> one_key_rows, uniformity;
  std::optional<double> result_norm, result_share;
  std::optional<double> nearest_head, similarity;
  std::optional<double> masked_rows, row_sum_error;
  ProjectionMeasures q, k, v, o;

  // Beside the columns that DESIGN names.
  std::optional<double> max_batch;     ///< the batch item of max, where the input has them
  std::optional<double> largest_logit; ///< of masked, sinks included
  std::optional<double> overflow_f32, overflow_f16; ///< 1: the naive softmax overflows
  std::optional<double> confidence;                 ///< mean of the rows' largest weights
  std::optional<double> sink_share;                 ///< what key 0 and learned sinks take

  std::optional<double> rows; ///< that may see more than one key
  PlaceMeasures uniform;      ///< what equal weights on the keys that each row may see would score
  PlaceMeasures counts;       ///< the rows behind each mean
};

/// One column of the numbers: help, tables, files and sorting loop over these.
struct Measure {
  enum class Form : std::uint8_t { number, count, boolean };
  std::string_view name; ///< "entropy_share"
  std::string_view text; ///< what it is, in a line with references (`of_literal`)
  Form form = Form::number;
  std::optional<double> (*of)(const HeadMeasures& head) = nullptr;
};
/// The column that says how far a measure is above equal weights ("first_above" of "first"), or the
/// measure itself where equal weights mean nothing to it.
const Measure& above_uniform(const Measure& measure);
/// Columns without those that come again.
std::vector<const Measure*> each_once(const std::vector<const Measure*>& columns);
/// above_uniform() of columns, each once: a list of all measures has both.
std::vector<const Measure*> all_above_uniform(std::vector<const Measure*> columns);
/// The column of the rows behind a measure that not every row counts for ("induction_rows"), or
/// null.
const Measure* rows_behind(const Measure& measure);
/// Whether a measure compares the tokens' texts: which are the same, which separate.
bool reads_tokens(const Measure& measure);
/// Whether a measure is of the blocks of the projections, whose singular values take longer than a
/// short text's layer.
bool is_of_projections(const Measure& measure);
/// All of them, in the order of the columns; layer, head and kind stand before them.
std::span<const Measure> measures();
/// Throws Error with "did you mean".
const Measure& measure_named(std::string_view name);

/// A word for what a head looks like, and when it is used: the first whose threshold is reached.
struct HeadKind {
  std::string_view name; ///< "previous-token"
  std::string_view text; ///< "previous ≥ 0.5, 0.25 above uniform"
  bool (*holds)(const HeadMeasures& head) = nullptr;
  /// The rows that it is decided by.
  std::optional<double> (*rows)(const HeadMeasures& head) = nullptr;
};
/// In the order in which they are tried; the last but one always holds, and the last is said where
/// rows do not suffice.
std::span<const HeadKind> head_kinds();
/// A kind as a reader sees it beside a head: that the text is too short says nothing of the head.
constexpr std::string_view kind_for_eyes(std::string_view kind) {
  return kind == "too short" ? "text too short" : kind;
}
/// What a head looks like; "" where no row chooses between keys or nothing was measured.
std::string_view kind_of(const HeadMeasures& head);
/// Throws Error with "did you mean".
const HeadKind& head_kind_named(std::string_view name);

/// What is measured.
struct MeasureRequest {
  Selection selection;     ///< batch items and queries that are measured, heads that are returned
  std::size_t window = 8;  ///< keys within ±window of the query count for `window`
  bool each_batch = false; ///< every batch item by itself, instead of all together
  /// Every query by itself, in the order of the selection: no similarity, no kind.
  bool each_query = false;
  bool projections = true; ///< those of the projections, too; always where a layer has no others
  /// Tokens that separate; empty: those of separators.hpp.
  std::vector<std::string> separators;
  std::size_t threads = 0;
  Ranks* ranks = nullptr;              ///< the processes that share the work; null: this one alone
  ComputeLayer compute = mha::compute; ///< how the layer is computed
};

/// The heads of a layer.
struct LayerMeasures {
  std::vector<HeadMeasures> heads; ///< in the order of the selection, batch items in front
  Message overflow;                ///< where numbers left their type's range, in words, or ""
  std::vector<std::string> notes;  ///< what a reader should know: a library that is missing …
};

/// Computes the layer once and measures its heads. Never holds a T × S matrix. The results have the
/// same bits whatever the threads and the ranks; they are the first rank's, others get no heads.
/// Throws Error where the layer has neither weights nor head_result, nor projections.
LayerMeasures measure_heads(const Layer& layer, const MeasureRequest& request = {});

} // namespace mha
