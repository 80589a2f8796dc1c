#include <mha/explain/explain.hpp>

#include <mha/observe/first_tokens.hpp>
#include <mha/layer/graph.hpp>
#include <mha/layer/other_inputs.hpp>
#include <mha/observe/masked_keys.hpp>
#include <mha/naming/formula.hpp>
#include <mha/observe/overflow.hpp>
#include <mha/observe/trace.hpp>
#include <mha/schedule/plan.hpp>
#include <mha/system/words.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace mha {

namespace {

/// Stages of the query itself, and stages with an axis of heads, one for each head.
constexpr std::array token_stages{Stage::x, Stage::c_q, Stage::concat, Stage::output,
                                  Stage::residual};
constexpr std::array head_stages{
    Stage::q,         Stage::q_norm,  Stage::q_rope,   Stage::scores,
    Stage::scaled,    Stage::capped,  Stage::biased,   Stage::masked,
    Stage::row_max,   Stage::shifted, Stage::exp,      Stage::row_sum,
    Stage::logsumexp, Stage::weights, Stage::head_out, Stage::gate,
    Stage::head_norm, Stage::gated,   Stage::head_result};

/// Piece `index` of `pieces` equal ones.
std::vector<double> piece(const std::vector<double>& values, std::size_t index,
                          std::size_t pieces) {
  const std::size_t n = values.size() / pieces;
  const auto first = values.begin() + static_cast<std::ptrdiff_t>(index * n);
  return {first, first + static_cast<std::ptrdiff_t>(n)};
}

void check(const Layer& layer, const ExplainRequest& request) {
  const Dims& dims = layer.dims;
  const auto within = [](const Message& option, std::size_t index, std::size_t count,
                         std::string_view what) {
    if (index >= count)
      fail("{} {}: there are {} {}{}", option, index, count, what,
           count == 0 ? std::string() : fmt::format(" (0 to {})", count - 1));
  };
  within(message("<batch>"), request.batch, dims.B, "batch items");
  within(message("<query>"), request.query, layer.length_of(request.batch), "queries");
  if (request.head) within(message("<head>"), *request.head, dims.H, "heads");
}

double dot(const std::vector<double>& a, const std::vector<double>& b) {
  return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
}

/// The contribution of a vector along the output; nothing if the output is zero.
std::optional<double> share_of(const std::vector<double>& part, const std::vector<double>& output) {
  const double square = dot(output, output);
  if (part.size() != output.size() || !(square > 0)) return std::nullopt;
  return dot(part, output) / square;
}

/// The sink of a head.
SinkStep sink_step(const Layer& layer, const HeadExplanation& head) {
  SinkStep sink;
  sink.logit = value_at(layer.sinks, head.head);
  const bool naive = layer.settings.softmax == Softmax::naive;
  if (naive)
    sink.exp = std::exp(sink.logit);
  else if (head.has(Stage::row_max))
    sink.exp = std::exp(sink.logit - head.value(Stage::row_max));
  if (sink.exp && head.has(Stage::row_sum)) sink.share = *sink.exp / head.value(Stage::row_sum);
  return sink;
}

/// Keys or values of one head as rows, S × d, from d × S in `columns`.
std::vector<double> rows_of(const std::vector<double>& values, std::size_t keys, bool columns) {
  if (!columns) return values;
  const std::size_t width = keys == 0 ? 0 : values.size() / keys;
  std::vector<double> rows(values.size());
  for (std::size_t j = 0; j < keys; ++j)
    for (std::size_t i = 0; i < width; ++i) rows[j * width + i] = values[i * keys + j];
  return rows;
}

/// Head `index` of the traced ones.
HeadExplanation explain_head(const Layer& layer, const Trace& kept, const StageSet& traced,
                             const ExplainRequest& request, std::size_t head,
                             std::optional<Stage> keys, std::optional<Stage> value_rows) {
  const bool one_head = request.head.has_value();
  const std::size_t batch = request.batch, query = request.query;
  const Dims& dims = layer.dims;
  HeadExplanation result;
  result.head = head;
  result.kv_head = dims.H_kv == 0 ? 0 : kv_head_of(layer, head);
  for (Stage stage : head_stages)
    if (contains(traced, stage))
      result.values[stage] =
          piece(values_in_double(kept.value(stage)), one_head ? 0 : head, one_head ? 1 : dims.H);
  const auto rows = [&](Stage stage) {
    const std::vector<double> all = values_in_double(kept.value(stage));
    return rows_of(piece(all, one_head ? 0 : result.kv_head, one_head ? 1 : dims.H_kv), dims.S_all,
                   layer.settings.columns);
  };
  if (keys) result.keys = rows(*keys);
  if (value_rows) result.value_rows = rows(*value_rows);
  if (result.has(Stage::masked) || has_masks(layer))
    for (std::uint8_t hidden : masked_keys(layer, batch, head, query))
      result.masked.push_back(hidden != 0);
  if (!layer.sinks.empty() && logits_stage(result)) result.sink = sink_step(layer, result);
  return result;
}

} // namespace

std::optional<Stage> last_form(const StageSet& available, std::initializer_list<Stage> forms) {
  std::optional<Stage> last;
  for (Stage form : forms)
    if (contains(available, form)) last = form;
  return last;
}

std::vector<std::string> labels_of_keys(const Layer& layer, std::size_t batch) {
  const Dims& dims = layer.dims;
  const std::vector<std::string>& key_tokens = layer.key_tokens_of(batch);
  if (key_tokens.size() == dims.S_all) return key_tokens;
  std::vector<std::string> labels(dims.S_all);
  for (std::size_t j = 0; j < dims.past; ++j) labels[j] = fmt::format("[past {}]", j);
  const bool self = layer.X_k.empty() && dims.T == dims.S;
  const std::vector<std::string>& current =
      key_tokens.size() == dims.S || !self ? key_tokens : layer.tokens_of(batch);
  for (std::size_t j = 0; j < std::min(dims.S, current.size()); ++j)
    labels[dims.past + j] = current[j];
  for (std::size_t j = 0; j < dims.extra; ++j) labels[dims.past + dims.S + j] = "[extra]";
  for (std::size_t j = 0; j < dims.zero; ++j)
    labels[dims.past + dims.S + dims.extra + j] = "[zero]";
  return labels;
}

std::size_t HeadExplanation::masked_count() const {
  return static_cast<std::size_t>(std::count(masked.begin(), masked.end(), true));
}

std::vector<double> HeadExplanation::contribution(std::size_t key) const {
  const std::vector<double>& alpha = values.at(Stage::weights);
  const std::size_t d_v = value_rows.size() / alpha.size();
  std::vector<double> row(d_v);
  for (std::size_t i = 0; i < d_v; ++i) row[i] = alpha[key] * value_rows[key * d_v + i];
  return row;
}

std::vector<std::size_t> by_weight(const HeadExplanation& head) {
  std::size_t count = 0;
  for (Stage stage : {Stage::weights, Stage::masked, Stage::scores})
    if (head.has(stage)) count = std::max(count, head.values.at(stage).size());
  std::vector<std::size_t> keys;
  for (std::size_t j = 0; j < count; ++j)
    if (!head.is_masked(j)) keys.push_back(j);
  if (!head.has(Stage::weights)) return keys;
  const std::vector<double>& alpha = head.values.at(Stage::weights);
  const auto rank = [&](std::size_t j) {
    return std::isnan(alpha[j]) ? std::numeric_limits<double>::infinity() : alpha[j];
  };
  std::stable_sort(keys.begin(), keys.end(),
                   [&](std::size_t a, std::size_t b) { return rank(a) > rank(b); });
  return keys;
}

std::optional<Stage> logits_stage(const HeadExplanation& head) {
  for (Stage stage : {Stage::masked, Stage::biased, Stage::capped, Stage::scaled, Stage::scores})
    if (head.has(stage)) return stage;
  return std::nullopt;
}

double norm_of(const std::vector<double>& vector) {
  return std::sqrt(dot(vector, vector));
}

namespace {

/// Facts about the whole layer: sizes, settings, labels, which weights it has.
Explanation facts_of(const Layer& layer, const ExplainRequest& request) {
  Explanation result;
  result.dtype = layer.dtype;
  result.dims = layer.dims;
  result.settings = layer.settings;
  result.query = request.query;
  result.batch = request.batch;
  if (const auto& tokens = layer.tokens_of(request.batch); request.query < tokens.size())
    result.label = tokens[request.query];
  result.key_labels = labels_of_keys(layer, request.batch);
  result.scale = layer.scale();
  result.temperature = layer.temperature_of(request.query);
  if (has_step(layer, Stage::v_norm)) result.value_rows = name_of(Stage::v_norm);
  result.one_head = request.head.has_value();
  result.has_W_q = !layer.W_q.empty(), result.has_b_q = !layer.b_q.empty();
  for (Stage& step : result.query_steps) step = in_turn(layer, step);
  result.multiplied = last_of_heads(layer);
  for (const Stage stage : {Stage::head_norm, Stage::gated})
    if (has_step(layer, stage))
      result.result_steps.push_back(
          fmt::format("{} = {}", name_of(stage), formula_of(layer, stage)));
  result.has_W_o = !layer.W_o.empty(), result.has_b_o = !layer.b_o.empty();
  result.other_source = !layer.X_k.empty() || !layer.X_v.empty();
  if (result.has_b_o) result.b_o = values_in_double(layer.b_o);
  return result;
}

/// One query, of one head or all.
Selection selection_of(const Layer& layer, const ExplainRequest& request) {
  Selection selection;
  selection.query = IndexList::of_indices({request.query}, message("<query>"));
  if (request.head) selection.head = IndexList::of_indices({*request.head}, message("<head>"));
  if (layer.dims.batched)
    selection.batch = IndexList::of_indices({request.batch}, message("<batch>"));
  return selection;
}

/// Adds each head's share of the output, and notes.
void judge_heads(const Layer& layer, const ExplainRequest& request, Explanation& result) {
  for (HeadExplanation& head : result.heads) {
    if (result.has(Stage::output) && head.has(Stage::head_result)) {
      const std::vector<double>& output = result.values[Stage::output];
      const std::vector<double>& part = head.values[Stage::head_result];
      if (const double length = norm_of(output); length > 0)
        head.relative_norm = norm_of(part) / length;
      head.share = share_of(part, output);
    }
    Message overflow;
    if (has_not_finite(result, head))
      if (const auto found = find_overflow(layer, request.batch, head.head, request.query))
        overflow = overflow_text(layer, *found);
    head.notes = notes_on(result, head, overflow);
  }
  if (result.has(Stage::output) && result.has_b_o)
    result.b_o_share = share_of(result.b_o, result.values[Stage::output]);
}

} // namespace

Explanation explain(const Layer& whole, const ExplainRequest& asked, std::size_t threads,
                    const ComputeLayer& by) {
  const StageSet available = available_stages(whole);
  if (!contains(available, Stage::weights) && !contains(available, Stage::head_out))
    fail("nothing to explain: a query's story needs weights or head_out, or what they are computed "
         "from; this layer has {}{}",
         available.none() ? std::string("no stages") : joined_names(available), whole.missing_X);

  check(whole, asked);
  // One item costs no more than the item alone, whatever the batch.
  const Layer layer = one_item(whole, asked.batch);
  ExplainRequest request = asked;
  request.batch = 0;

  StageSet wanted;
  const auto want = [&](Stage stage) {
    if (contains(available, stage)) wanted.add(stage);
  };
  for (Stage stage : token_stages) want(stage);
  for (Stage stage : head_stages) want(stage);
  const std::optional<Stage> value_rows = last_form(available, {Stage::v, Stage::v_norm, Stage::v_all});
  // The keys' numbers are shown only if one head is explained in full.
  const std::optional<Stage> keys =
      request.head && contains(available, Stage::scores)
          ? last_form(available, {Stage::k, in_turn(layer, Stage::k_norm),
                                  in_turn(layer, Stage::k_rope), Stage::k_all})
          : std::nullopt;
  for (const std::optional<Stage>& stage : {value_rows, keys})
    if (stage) want(*stage);

  const std::vector<Stage> list(wanted.begin(), wanted.end());
  const Trace kept = trace(layer, list, selection_of(layer, request), threads, by);

  Explanation result = facts_of(layer, request);
  result.batch = asked.batch, result.dims.B = whole.dims.B;
  // All given stages that the computation starts from, even those not shown.
  result.given = layer.given_set & make_plan(layer, wanted, selection_of(layer, request)).needed;
  for (Stage stage : token_stages)
    if (contains(wanted, stage)) result.values[stage] = values_in_double(kept.value(stage));

  std::vector<std::size_t> heads(layer.dims.H);
  std::iota(heads.begin(), heads.end(), std::size_t{0});
  if (request.head) heads = {*request.head};
  for (std::size_t head : heads)
    result.heads.push_back(explain_head(layer, kept, wanted, request, head, keys, value_rows));
  judge_heads(layer, request, result);
  return result;
}

} // namespace mha
