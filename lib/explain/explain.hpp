#pragma once
// The computation of one query token step by step, with every number of a textbook's derivation.

#include <mha/observe/compute.hpp>
#include <mha/system/message.hpp>

#include <array>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace mha {

/// The token to explain, and one head in full or all heads.
struct ExplainRequest {
  std::size_t batch = 0;
  std::size_t query = 0;
  std::optional<std::size_t> head; ///< nothing: every head
};

/// The values of stages at the query, for the stages that the layer has.
using StageValues = std::map<Stage, std::vector<double>>;

/// The sink of a head: an extra logit in the softmax that gets weight and has no value.
struct SinkStep {
  double logit = 0;
  std::optional<double> exp;   ///< e^(logit − row_max)
  std::optional<double> share; ///< the share of row_sum that the keys do not get
};

/// The computation of one head. S counts all keys: past, current, extra and zero ones.
struct HeadExplanation {
  std::size_t head = 0, kv_head = 0;
  /// q, q_norm, q_rope: d_k. scores … weights: S. row_max, row_sum, logsumexp: 1. head_out: d_v.
  /// head_result: d_out.
  StageValues values;
  std::vector<bool> masked;       ///< S: the key may not be attended to; empty if not known
  std::vector<double> keys;       ///< S × d_k, the keys that scores reads, or empty
  std::vector<double> value_rows; ///< S × d_v
  std::optional<SinkStep> sink;
  std::optional<double> relative_norm; ///< ‖head_result‖ / ‖output‖
  /// head_result · output / ‖output‖²: the shares of all heads and b_o sum to 1.
  std::optional<double> share;
  std::vector<Message> notes; ///< for the reader: nothing to attend to, overflow …

  bool has(Stage stage) const { return values.count(stage) > 0; }
  /// The only number of a row stage.
  double value(Stage stage) const { return values.at(stage).front(); }
  bool is_masked(std::size_t key) const { return !masked.empty() && masked[key]; }
  std::size_t masked_count() const;
  /// α_j v_j, the contribution of key j to head_out (d_v).
  std::vector<double> contribution(std::size_t key) const;
};

/// The whole explanation. Plain data: renderers need no layer.
struct Explanation {
  DType dtype = DType::f32;
  Dims dims;
  Settings settings;
  std::size_t query = 0, batch = 0;
  std::string label;                   ///< of the query, or ""
  std::vector<std::string> key_labels; ///< S_all; "" for a key without a label
  double scale = 1;
  double temperature = 1;           ///< also multiplies the query's scores
  std::string_view value_rows = "v"; ///< what head_out is made of: v, or v_norm
  bool one_head = false;
  bool has_W_q = false, has_b_q = false, has_W_o = false, has_b_o = false; ///< for the formulas
  /// q and its later forms, in the order in which the layer makes them.
  std::array<Stage, 3> query_steps{Stage::q, Stage::q_norm, Stage::q_rope};
  /// How head_norm and gated are made, where the layer has them: "gated = head_out · σ(gate)".
  std::vector<std::string> result_steps;
  Stage multiplied = Stage::head_out; ///< the step that W_o multiplies
  bool other_source = false;          ///< keys and values come from another input than the queries
  StageSet given;                     ///< stages that are given, not computed
  StageValues values;                 ///< x, concat, output, residual
  std::vector<double> b_o;            ///< d_out, or empty
  std::optional<double> b_o_share;    ///< b_o · output / ‖output‖²
  std::vector<HeadExplanation> heads; ///< one, or all of them

  bool has(Stage stage) const { return values.count(stage) > 0; }
};

/// Traces the stages of one query. Throws Error if the layer has no such query, batch item or head,
/// or neither weights nor head_out. `by`: how the layer is computed.
Explanation explain(const Layer& layer, const ExplainRequest& request, std::size_t threads = 0,
                    const ComputeLayer& by = compute);

/// The keys that are not masked, by falling weight (NaN first, equal weights in order). Without
/// weights, in order.
std::vector<std::size_t> by_weight(const HeadExplanation& head);

/// The stage whose exponentials the softmax takes: the last stage before it that the head has.
std::optional<Stage> logits_stage(const HeadExplanation& head);

/// The labels of all keys: `[past 0]`, the layer's labels of current keys, `[extra]` and `[zero]`.
std::vector<std::string> labels_of_keys(const Layer& layer, std::size_t batch = 0);

/// The last of some forms of a stage that the layer has: scores and head_out read the last form of
/// k and v.
std::optional<Stage> last_form(const StageSet& available, std::initializer_list<Stage> forms);

/// ‖v‖, the Euclidean length.
double norm_of(const std::vector<double>& vector);

/// Notes of one sentence each: a fully masked row, overflow and underflow of the softmax, the
/// source of NaN or infinity, given weights that do not sum to 1. `overflow`: where numbers left
/// their type's range, in words, or "".
std::vector<Message> notes_on(const Explanation& explanation, const HeadExplanation& head,
                              const Message& overflow = {});

/// Whether a number of the explanation is NaN or infinite, and not because of a mask.
bool has_not_finite(const Explanation& explanation, const HeadExplanation& head);

} // namespace mha
