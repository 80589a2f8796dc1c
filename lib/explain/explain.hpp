#pragma once
// One query token, step by step: every number that a textbook would write down for it.

#include <mha/observe/compute.hpp>
#include <mha/system/message.hpp>

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace mha {

/// Which token, and whether one head in full or all of them.
struct ExplainRequest {
  std::size_t batch = 0;
  std::size_t query = 0;
  std::optional<std::size_t> head; ///< nothing: every head
};

/// The values of stages at the query, by stage; a stage that the layer does not have is not there.
using StageValues = std::map<Stage, std::vector<double>>;

/// The extra logit that joins the softmax and is then dropped.
struct SinkStep {
  double logit = 0;
  std::optional<double> exp;   ///< e^(logit − row_max)
  std::optional<double> share; ///< of row_sum: what the keys do not get
};

/// What one head does with the query. S counts every key: past, current, extra and zero ones.
struct HeadExplanation {
  std::size_t head = 0, kv_head = 0;
  /// q, q_norm, q_rope: d_k. scores … weights: S. row_max, row_sum, logsumexp: 1. head_out: d_v.
  /// head_result: d_out.
  StageValues values;
  std::vector<bool> masked;       ///< S: may not be attended to; empty where no stage tells
  std::vector<double> keys;       ///< S × d_k, as scores sees them; empty where they are not there
  std::vector<double> value_rows; ///< S × d_v
  std::optional<SinkStep> sink;
  std::optional<double> relative_norm; ///< ‖head_result‖ / ‖output‖
  /// head_result · output / ‖output‖²: with b_o's, the shares of all heads sum to 1.
  std::optional<double> share;
  std::vector<Message> notes; ///< what a reader should know: nothing to attend to, overflow …

  bool has(Stage stage) const { return values.count(stage) > 0; }
  /// The only number of a row stage.
  double value(Stage stage) const { return values.at(stage).front(); }
  bool is_masked(std::size_t key) const { return !masked.empty() && masked[key]; }
  std::size_t masked_count() const;
  /// α_j v_j: what key j adds to head_out (d_v).
  std::vector<double> contribution(std::size_t key) const;
};

/// The whole story. Plain data: renderers need no layer.
struct Explanation {
  DType dtype = DType::f32;
  Dims dims;
  Settings settings;
  std::size_t query = 0, batch = 0;
  std::string label;                   ///< of the query, or ""
  std::vector<std::string> key_labels; ///< S_all; "" where a key has none
  double scale = 1;
  bool one_head = false;
  bool has_W_q = false, has_b_q = false, has_W_o = false, has_b_o = false; ///< for the formulas
  bool other_source = false;          ///< keys and values come from another input than the queries
  StageSet given;                     ///< stages that are given, not computed
  StageValues values;                 ///< x, concat, output, residual
  std::vector<double> b_o;            ///< d_out, or empty
  std::optional<double> b_o_share;    ///< b_o · output / ‖output‖²
  std::vector<HeadExplanation> heads; ///< one, or all of them

  bool has(Stage stage) const { return values.count(stage) > 0; }
};

/// Traces what is needed for one query. Throws Error where there is no such query, batch item or
/// head, or where the layer has neither weights nor head_out.
/// `by`: how the layer is computed.
Explanation explain(const Layer& layer, const ExplainRequest& request, std::size_t threads = 0,
                    const ComputeLayer& by = compute);

/// The keys with the largest weights first (equal ones in order; NaN before everything), masked
/// ones left out. Without weights: every key that is not masked, in order.
std::vector<std::size_t> by_weight(const HeadExplanation& head);

/// The stage that the exponentials are taken of: the last one before the softmax that is there.
std::optional<Stage> logits_stage(const HeadExplanation& head);

/// The labels of all keys: those of the current ones where the layer has them, `[past 0]`,
/// `[extra]` and `[zero]` for the others.
std::vector<std::string> labels_of_keys(const Layer& layer, std::size_t batch = 0);

/// What scores and head_out read: the last of the forms of k (or v) that this layer has.
std::optional<Stage> last_form(const StageSet& available, std::initializer_list<Stage> forms);

/// ‖v‖, the Euclidean length.
double norm_of(const std::vector<double>& vector);

/// Fully masked rows, overflow and underflow of the softmax, where NaN or infinity comes from,
/// weights that are given and do not sum to 1: one sentence each.
/// `overflow`: where numbers left their type's range, in words, or "".
std::vector<Message> notes_on(const Explanation& explanation, const HeadExplanation& head,
                              const Message& overflow = {});

/// Whether a number of the story is NaN or infinite, and no mask has put it there.
bool has_strange_numbers(const Explanation& explanation, const HeadExplanation& head);

} // namespace mha
