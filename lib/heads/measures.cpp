#include <mha/heads/measures.hpp>

#include <mha/heads/measure_projections.hpp>
#include <mha/heads/measure_results.hpp>
#include <mha/heads/measure_rows.hpp>
#include <mha/kernels/lapack.hpp>
#include <mha/layer/graph.hpp>
#include <mha/observe/overflow.hpp>
#include <mha/observe/several.hpp>
#include <mha/ranks/compute.hpp>

#include <algorithm>

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
       "are no projections; this layer has {}{}",
       available.none() ? "no stages" : list_of(available), layer.missing_X);
}

/// Weights first, with concat and output. Then head_result starts at them: nothing is computed
/// twice. Each rank measures both of its blocks, so that no row travels.
std::string measure_stages(const Layer& layer, const StageSet& available,
                           const MeasureRequest& request, Ranks& ranks,
                           std::vector<HeadMeasures>& heads) {
  RowMeasures rows(layer, request, available);
  const bool has_result = contains(available, Stage::head_result),
             is_given = layer.has_given(Stage::head_result);
  StageSet kept;
  for (Stage stage : {Stage::concat, Stage::output})
    if (has_result && contains(available, stage) && !(stage == Stage::concat && is_given))
      kept.set(index_of(stage));
  KeptTokens tokens(layer, kept);

  Selection selection; // the concatenation, and similarity, need every head
  selection.batch = request.selection.batch, selection.query = request.selection.query;
  Several both;
  both.add(rows);
  both.add(tokens);
  OverflowWatch watch(layer);
  if (contains(available, Stage::weights)) both.add(watch);
  const StageSet result = set_of({Stage::head_result});
  const Plan plan = make_plan(layer, both.wants().any() ? both.wants() : result, selection),
             mine = shard_of(layer, plan, ranks.part());
  if (both.wants().any()) compute(layer, mine, both, request.threads);

  Layer rest = layer;
  if (contains(kept, Stage::concat)) {
    rest.given[index_of(Stage::head_out)] = tokens.tensor(Stage::concat);
    rest.given_set.set(index_of(Stage::head_out));
  }
  ResultMeasures results(
      layer, contains(kept, Stage::output) ? tokens.tensor(Stage::output) : Tensor(), rows, mine);
  if (has_result) {
    Plan second = make_plan(rest, results.wants(), selection);
    second.blocks = mine.blocks;
    compute(rest, second, results, request.threads);
  }
  SeveralShareable measured;
  measured.add(rows);
  measured.add(results);
  measured.add(watch);
  gather(ranks, layer, plan, measured);
  for (HeadMeasures& head : heads) rows.fill(head), results.fill(head);
  return watch.told(layer);
}

} // namespace

LayerMeasures measure_heads(const Layer& layer, const MeasureRequest& request) {
  Ranks alone;
  Ranks& ranks = request.ranks ? *request.ranks : alone;
  Layer in_rows = layer; // observers see rows, whatever the files' orientation
  in_rows.settings.columns = false;
  const StageSet available = available_stages(in_rows);
  require_something(in_rows, available);

  LayerMeasures result;
  for (std::size_t h : resolved(request.selection.head, layer.dims.H, "heads").indices) {
    result.heads.emplace_back();
    result.heads.back().head = h;
  }
  const bool has_weights = contains(available, Stage::weights);
  if (has_weights || contains(available, Stage::head_result))
    result.overflow = measure_stages(in_rows, available, request, ranks, result.heads);
  if (!measure_projections(in_rows, result.heads, request.threads, ranks))
    result.notes.push_back(
        fmt::format("rank, cond and stiefel need LAPACK, which is not installed: "
                    "apt-get install {}",
                    lapack_package));
  if (!ranks.is_first()) return {};
  for (HeadMeasures& head : result.heads) {
    if (!has_weights || !head.entropy) continue;
    const auto kinds = head_kinds();
    const auto kind = std::find_if(kinds.begin(), kinds.end(), [&](const HeadKind& candidate) {
      return candidate.holds(head);
    });
    head.kind = kind->name;
  }
  return result;
}

} // namespace mha
