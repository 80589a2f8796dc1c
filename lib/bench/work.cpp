#include <mha/bench/work.hpp>

#include <mha/schedule/tiles.hpp>
#include <mha/schedule/visible.hpp>

#include <algorithm>
#include <map>

namespace mha {

namespace {

template <class... Sizes> double product_operations(Sizes... sizes) {
  return 2 * (static_cast<double>(sizes) * ...);
}

/// The (query, key) pairs of the plan's blocks that no position hides.
double visible_pairs(const Layer& layer, const Plan& plan) {
  std::map<std::pair<std::size_t, std::size_t>, std::size_t> pairs; // of a batch item and a block
  std::size_t all = 0;
  for (const QueryBlock& block : plan.blocks) {
    const auto [entry, added] = pairs.try_emplace({block.batch, block.block}, 0);
    const Tile rows = block_rows(layer, block);
    for (std::size_t t = rows.first; added && t < rows.first + rows.count; ++t) {
      const Visible visible = visible_keys(layer, block.batch, t);
      entry->second += visible.last - visible.first + layer.dims.extra + layer.dims.zero;
    }
    all += entry->second;
  }
  return static_cast<double>(all);
}

/// The rows of some tiles, counted once for each head.
double rows_of_heads(const std::vector<Tile>& tiles) {
  std::size_t rows = 0;
  for (const Tile& tile : tiles) rows += tile.count * (tile.heads.last - tile.heads.first);
  return static_cast<double>(rows);
}

/// Sums up the work of a plan's stages.
class Counter {
public:
  Counter(const Layer& layer, const Plan& plan) : layer_(layer), plan_(plan) {
    const std::vector<Tile> rows = query_rows(layer, plan), keys = key_rows(layer, plan);
    for (const Tile& tile : rows) queries_ += static_cast<double>(tile.count);
    for (const QueryBlock& block : plan.blocks) {
      const auto count = static_cast<double>(block_rows(layer, block).count);
      block_rows_ += count;
      all_scores_ += count * static_cast<double>(computed_keys(layer, block.batch));
    }
    head_queries_ = rows_of_heads(rows), head_keys_ = rows_of_heads(keys);
  }

  StageWork count();

private:
  const Dims& dims() const { return layer_.dims; }
  bool computes(Stage stage) const { return contains(plan_.computed, stage); }
  bool keeps(Stage stage) const { return contains(plan_.wanted, stage); }
  double bytes_of(double numbers) const {
    return numbers * static_cast<double>(size_of(layer_.dtype));
  }
  /// x W if there is a W; without one, it is the identity.
  void project(Stage stage, const Tensor& W, double rows_of_heads, std::size_t heads) {
    linear(stage, W, rows_of_heads / static_cast<double>(std::max<std::size_t>(1, heads)));
  }
  void linear(Stage stage, const Tensor& W, double rows) {
    if (!computes(stage)) return;
    work_[index_of(stage)].operations += product_operations(rows, W.count());
    work_[index_of(stage)].read_bytes += bytes_of(static_cast<double>(W.count()));
  }
  void attention();
  void around();
  void around(const Mixture& mixture, double rows);

  const Layer& layer_;
  const Plan& plan_;
  double queries_ = 0, block_rows_ = 0, all_scores_ = 0, head_queries_ = 0, head_keys_ = 0;
  StageWork work_{};
};

void Counter::attention() {
  const bool every_score =
      keeps(Stage::scores) || keeps(Stage::scaled) || keeps(Stage::capped) || keeps(Stage::biased);
  const double pairs = visible_pairs(layer_, plan_);
  const double scored = every_score ? all_scores_ : pairs;
  double keys = 0; // of all key/value heads
  for (std::size_t b = 0; b < dims().B; ++b)
    keys += static_cast<double>(computed_keys(layer_, b) * dims().H_kv);
  const auto add = [&](Stage stage, Work work) {
    if (computes(stage)) work_[index_of(stage)] = work;
  };
  const auto d_k = static_cast<double>(dims().d_k), d_v = static_cast<double>(dims().d_v);
  add(Stage::scores, {product_operations(scored, d_k), 0, bytes_of(keys * d_k)});
  add(Stage::weights, {0, pairs, 0});
  add(Stage::head_out, {product_operations(pairs, d_v), 0, bytes_of(keys * d_v)});
  if (!layer_.W_o.empty())
    add(Stage::head_result, {product_operations(block_rows_, d_v, dims().d_out), 0,
                             bytes_of(static_cast<double>(layer_.W_o.count()))});
}

/// Of a mixture: each row's products with its experts, whose weights are read once each.
void Counter::around(const Mixture& mixture, double rows) {
  const FeedForward& shared = mixture.shared;
  linear(Stage::router, mixture.router.W, rows);
  linear(Stage::shared_pre, shared.in.W, rows), linear(Stage::shared_up, shared.up.W, rows);
  linear(Stage::shared_out, shared.out.W, rows);
  linear(Stage::shared_gate, mixture.shared_gate.W, rows);
  const auto of_experts = [&](Stage stage, const std::vector<LinearMap>& maps) {
    if (maps.empty() || !computes(stage)) return;
    const double products = rows * static_cast<double>(mixture.routing.chosen),
                 read = std::min(products, static_cast<double>(maps.size())),
                 numbers = static_cast<double>(maps[0].W.count());
    work_[index_of(stage)] = {2 * products * numbers, 0, bytes_of(read * numbers)};
  };
  of_experts(Stage::mlp_pre, mixture.in), of_experts(Stage::mlp_up, mixture.up);
  of_experts(Stage::expert_out, mixture.out);
}

void Counter::around() {
  double rows = 0; // of the queries that are asked for
  for (const Tile& tile : rows_around(layer_, plan_, [](std::size_t) { return 1; }))
    rows += static_cast<double>(tile.count);
  if (layer_.block) {
    const FeedForward& mlp = layer_.block->mlp;
    linear(Stage::mlp_pre, mlp.in.W, rows);
    linear(Stage::mlp_up, mlp.up.W, rows);
    linear(Stage::mlp_out, mlp.out.W, rows);
    linear(Stage::layer_add, layer_.block->supplement.in.W, rows);
    linear(Stage::layer_add, layer_.block->supplement.out.W, rows);
    if (const Mixture* const mixture = layer_.block->mixture.get()) around(*mixture, rows);
  }
  if (layer_.ends) {
    linear(Stage::logits, layer_.ends->head.dense.W, rows);
    linear(Stage::logits, layer_.ends->head.decoder.W, rows);
  }
}

StageWork Counter::count() {
  project(Stage::q, layer_.W_q, head_queries_, dims().H);
  project(Stage::k, layer_.W_k, head_keys_, dims().H_kv);
  project(Stage::v, layer_.W_v, head_keys_, dims().H_kv);
  project(Stage::gate, layer_.W_gate, head_queries_, dims().H);
  attention();
  linear(Stage::output, layer_.W_o, queries_);
  around();
  return work_;
}

} // namespace

StageWork work_of(const Layer& layer, const Plan& plan) {
  return Counter(layer, plan).count();
}

Phase phase_of(Stage stage) {
  switch (stage) {
  case Stage::q:
  case Stage::k:
  case Stage::v:
  case Stage::gate:
    return Phase::projections;
  case Stage::output:
    return Phase::output;
  case Stage::mlp_pre:
  case Stage::mlp_up:
  case Stage::mlp_out:
  case Stage::router:
  case Stage::expert_out:
  case Stage::shared_pre:
  case Stage::shared_up:
  case Stage::shared_gate:
  case Stage::shared_out:
  case Stage::layer_add:
  case Stage::logits:
    return Phase::around;
  default:
    return Phase::attention;
  }
}

ByPhase<double> operations_of(const StageWork& work) {
  ByPhase<double> sums;
  for (const StageInfo& info : stages())
    sums[phase_of(info.stage)] += work[index_of(info.stage)].operations;
  return sums;
}

} // namespace mha
