#pragma once
// Measures of each head: of its weights, of its addition to the output and of its projections.
// docs/stats.md has the formulas.

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

/// The measures of where a head's weight is.
struct PlaceMeasures {
  std::optional<double> first, self, previous, next, last, separator, window, diagonal;
  std::optional<double> induction, duplicate;
};

/// The measures of one head; nothing if the layer cannot compute a measure. Means are over the rows
/// that may see more than one key, in all batch items (or the selected ones).
struct HeadMeasures : PlaceMeasures {
  std::size_t head = 0;
  std::optional<std::size_t> batch; ///< the batch item, if each is measured by itself
  std::optional<std::size_t> query; ///< the query, if each is measured by itself
  std::string kind;                 ///< the kind of head ("previous-token"); "" without weights

  std::optional<double> entropy, entropy_share, effective_keys;
  std::optional<double> distance;
  std::optional<double> max, max_query, max_key;
  std::optional<double> one_key_rows, uniformity;
  std::optional<double> result_norm, result_share;
  std::optional<double> nearest_head, similarity;
  std::optional<double> masked_rows, row_sum_error;
  ProjectionMeasures q, k, v, o;

  std::optional<double> max_batch;     ///< the batch item of max, if the input has a batch
  std::optional<double> largest_logit; ///< in `masked`, with sinks
  std::optional<double> overflow_f32, overflow_f16; ///< 1: the naive softmax overflows
  std::optional<double> confidence;                 ///< mean of the rows' largest weights
  std::optional<double> sink_share;                 ///< mean weight of key 0 and learned sinks

  std::optional<double> rows; ///< that may see more than one key
  PlaceMeasures uniform;      ///< the same measures for equal weights on the keys a row may see
  PlaceMeasures counts;       ///< how many rows each mean is over
};

/// A column of numbers: help, tables, files and sorting loop over these.
struct Measure {
  enum class Form : std::uint8_t { number, count, boolean };
  std::string_view name; ///< "entropy_share"
  std::string_view text; ///< a line that describes it, with references (`of_literal`)
  Form form = Form::number;
  std::optional<double> (*of)(const HeadMeasures& head) = nullptr;
};
/// The column of a measure minus its value for equal weights ("first_above" of "first"), or the
/// measure itself if it has no such column.
const Measure& above_uniform(const Measure& measure);
/// Columns without duplicates.
std::vector<const Measure*> each_once(const std::vector<const Measure*>& columns);
/// above_uniform() of columns, each once, since a list may have both a measure and that column.
std::vector<const Measure*> all_above_uniform(std::vector<const Measure*> columns);
/// The column with the number of rows that count for a measure ("induction_rows"), or null if all
/// rows do.
const Measure* rows_counted_for(const Measure& measure);
/// Whether a measure depends on the tokens' texts: equal tokens, separators.
bool reads_tokens(const Measure& measure);
/// Whether a measure is of the projections, whose singular values take longer than the layer of a
/// short text.
bool is_of_projections(const Measure& measure);
/// All measures in the order of the columns, which layer, head and kind precede.
std::span<const Measure> measures();
/// Throws Error with "did you mean".
const Measure& measure_named(std::string_view name);

/// A kind of head and its condition. A head is of the first kind that holds.
struct HeadKind {
  std::string_view name; ///< "previous-token"
  std::string_view text; ///< "previous ≥ 0.5, 0.25 above uniform"
  bool (*holds)(const HeadMeasures& head) = nullptr;
  /// The number of rows that it is decided by.
  std::optional<double> (*rows)(const HeadMeasures& head) = nullptr;
};
/// The kinds in the order in which they are tried. The last but one always holds; the last is for
/// too few rows.
std::span<const HeadKind> head_kinds();
/// A kind as shown beside a head: it is the text that is too short, not the head.
constexpr std::string_view shown_kind(std::string_view kind) {
  return kind == "too short" ? "text too short" : kind;
}
/// The kind of a head; "" if no row chooses between keys or nothing was measured.
std::string_view kind_of(const HeadMeasures& head);
/// Throws Error with "did you mean".
const HeadKind& head_kind_named(std::string_view name);

/// What to measure, and how.
struct MeasureRequest {
  Selection selection;     ///< batch items and queries that are measured, heads that are returned
  std::size_t window = 8;  ///< keys within ±window of the query count for `window`
  bool each_batch = false; ///< measure every batch item by itself
  /// Measure every query by itself, in the order of the selection, without similarity and kind.
  bool each_query = false;
  bool projections = true; ///< also measure projections; always done if a layer has only these
  /// Tokens that separate; empty means those of is_separator().
  std::vector<std::string> separators;
  std::size_t threads = 0;
  Ranks* ranks = nullptr;              ///< the processes that share the work; null: this one alone
  ComputeLayer compute = mha::compute; ///< how the layer is computed
};

/// The heads of a layer.
struct LayerMeasures {
  std::vector<HeadMeasures> heads; ///< in the order of the selection, batch items in front
  Message overflow;                ///< where numbers left their type's range, in words, or ""
  std::vector<std::string> notes;  ///< notes for the reader, such as a missing library
};

/// Computes the layer once and measures its heads, without keeping a T × S matrix. The results have
/// the same bits for any number of threads and ranks; only the first rank gets heads. Throws Error
/// if the layer has neither weights nor head_result nor projections.
LayerMeasures measure_heads(const Layer& layer, const MeasureRequest& request = {});

} // namespace mha
