#include <mha/heads/measuring.hpp>

#include <mha/heads/measure_rows.hpp>
#include <mha/kernels/lapack.hpp>
#include <mha/layer/graph.hpp>
#include <mha/ranks/together.hpp>
#include <mha/system/words.hpp>

#include <algorithm>
#include <cmath>

namespace mha {

namespace {

bool has_projections(const Layer& layer) {
  return !layer.W_q.empty() || !layer.W_k.empty() || !layer.W_v.empty() || !layer.W_o.empty();
}

void require_something(const Layer& layer, const StageSet& available) {
  if (contains(available, Stage::weights) || contains(available, Stage::head_result) ||
      has_projections(layer))
    return;
  fail("there is nothing to measure: neither weights nor head_result can be computed, and there "
       "are not projections; this layer has {}{}",
       available.none() ? "no stages" : joined_names(available), layer.missing_X);
}

Layer in_rows(Layer layer) {
  layer.settings.columns = false;
  return layer;
}

} // namespace

HeadMeasuring::HeadMeasuring(const Layer& layer, const MeasureRequest& request)
    : layer_(in_rows(layer)),
      request_(request),
      available_(available_stages(layer_)),
      measures_stages_(contains(available_, Stage::weights) ||
                       contains(available_, Stage::head_result)),
      watch_(layer_) {
  require_something(layer_, available_);
  if (!measures_stages_) return;
  const bool has_result = contains(available_, Stage::head_result),
             is_given = layer_.has_given(Stage::head_result);
  for (Stage stage : {Stage::concat, Stage::output})
    if (has_result && contains(available_, stage) && !(stage == Stage::concat && is_given))
      kept_.add(stage);
  first_.add(rows_.emplace(layer_, request, available_));
  first_.add(tokens_.emplace(layer_, kept_));
  if (contains(available_, Stage::weights)) first_.add(watch_);
}

Selection HeadMeasuring::selection() const {
  Selection selection;
  selection.batch = request_.selection.batch, selection.query = request_.selection.query;
  return selection;
}

void HeadMeasuring::end_first(const Plan& part) {
  rest_ = layer_;
  if (contains(kept_, Stage::concat)) {
    const Stage of_heads = last_of_heads(layer_); // the same numbers
    rest_.given[index_of(of_heads)] = tokens_->tensor(Stage::concat);
    rest_.given_set.add(of_heads);
  }
  if (contains(available_, Stage::head_result))
    results_.emplace(layer_,
                     contains(kept_, Stage::output) ? tokens_->tensor(Stage::output) : Tensor(),
                     *rows_, part);
}

void HeadMeasuring::gather_from(Ranks& ranks, const Plan& plan) {
  SeveralMergeable measured;
  measured.add(*rows_);
  if (results_) measured.add(*results_);
  measured.add(watch_);
  gather(ranks, layer_, plan, measured);
}

LayerMeasures HeadMeasuring::finish(Ranks& ranks) {
  LayerMeasures result;
  std::vector<std::optional<std::size_t>> items{std::nullopt};
  if (request_.each_batch) {
    const auto chosen = chosen_items(layer_, request_.selection).indices;
    items.assign(chosen.begin(), chosen.end());
  }
  std::vector<std::optional<std::size_t>> queries{std::nullopt};
  if (request_.each_query) {
    const auto chosen = chosen_queries(layer_, request_.selection).indices;
    queries.assign(chosen.begin(), chosen.end());
  }
  for (const std::optional<std::size_t>& item : items)
    for (std::size_t h : resolved(request_.selection.head, layer_.dims.H, "heads").indices)
      for (const std::optional<std::size_t>& query : queries) {
        HeadMeasures& head = result.heads.emplace_back();
        head.head = h, head.batch = item, head.query = query;
      }
  if (measures_stages_) {
    for (HeadMeasures& head : result.heads) {
      rows_->fill(head);
      if (results_) results_->fill(head);
    }
    result.overflow = watch_.report(layer_);
  }
  // Of the weights alone, the same for every batch item.
  const std::size_t heads = items.empty() ? 0 : result.heads.size() / items.size();
  const bool of_weights = (request_.projections || !measures_stages_) && !request_.each_query;
  if (of_weights &&
      !measure_projections(layer_, std::span(result.heads).first(heads), request_.threads, ranks))
    result.notes.push_back(
        fmt::format("rank, cond and stiefel need LAPACK, which is not installed: "
                    "apt-get install {}",
                    lapack_package));
  if (!ranks.is_first()) return {};
  for (std::size_t i = heads; of_weights && i < result.heads.size(); ++i) {
    const HeadMeasures& known = result.heads[i % heads];
    result.heads[i].q = known.q, result.heads[i].k = known.k;
    result.heads[i].v = known.v, result.heads[i].o = known.o;
  }
  for (HeadMeasures& head : result.heads) {
    if (layer_.block && result.overflow.empty() && !std::isfinite(head.result_norm.value_or(0)))
      result.overflow = not_finite_text(layer_);
    const bool known = !head.entropy || std::isfinite(*head.entropy);
    if (contains(available_, Stage::weights) && known && !head.query) head.kind = kind_of(head);
  }
  return result;
}

LayerMeasures measure_heads(const Layer& layer, const MeasureRequest& request) {
  Ranks alone;
  Ranks& ranks = request.ranks ? *request.ranks : alone;
  HeadMeasuring measuring(layer, request);
  const StageSet available = available_stages(layer);
  if (!contains(available, Stage::weights) && !contains(available, Stage::head_result))
    return measuring.finish(ranks);
  // Each rank measures all of its blocks, so that no row travels.
  Observer& first = measuring.first();
  const Plan plan =
      make_plan(layer, first.wants().any() ? first.wants() : StageSet{Stage::head_result},
                measuring.selection());
  const Plan mine = shard_of(layer, plan, ranks.part());
  if (first.wants().any()) request.compute(layer, mine, first, request.threads);
  measuring.end_first(mine);
  if (Mergeable* const second = measuring.second()) {
    Plan rest = make_plan(measuring.rest(), second->wants(), measuring.selection());
    rest.blocks = mine.blocks;
    compute(measuring.rest(), rest, *second, request.threads);
  }
  measuring.gather_from(ranks, plan);
  return measuring.finish(ranks);
}

} // namespace mha
