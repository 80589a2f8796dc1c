// Fits the order of a projection's parts: which of ours is at each place in the reference.

#include <mha/diagnose/causes.hpp>
#include <mha/diagnose/hypotheses/edit.hpp>
#include <mha/diagnose/hypotheses/shards.hpp>
#include <mha/diagnose/thresholds.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <limits>

namespace mha {

namespace {

/// For each part of theirs, the equal part of ours. Empty if one has no equal, or if all are in
/// order.
std::vector<std::size_t> parts_between(const Tensor& ours, const Tensor& theirs,
                                       std::size_t ranks) {
  const std::size_t n = ours.shape().back(), part = n / ranks, rows = ours.count() / n;
  const auto apart = [&](std::size_t to, std::size_t from) {
    double difference = 0, size = 0;
    for (std::size_t row = 0; row < rows; ++row)
      for (std::size_t i = 0; i < part; ++i) {
        const double a = value_at(ours, row * n + from * part + i),
                     b = value_at(theirs, row * n + to * part + i);
        difference += (a - b) * (a - b), size += b * b;
      }
    return size > 0 ? difference / size : std::numeric_limits<double>::infinity();
  };
  std::vector<std::size_t> order;
  bool own = true;
  for (std::size_t to = 0; to < ranks; ++to) {
    std::size_t from = 0;
    while (from < ranks && !(apart(to, from) < thresholds::same_part)) ++from;
    if (from == ranks) return {};
    order.push_back(from), own = own && from == to;
  }
  return own ? std::vector<std::size_t>{} : order;
}

/// A weight whose outputs may be permuted.
struct Outputs {
  const char *id, *name;
  Stage stage;
  void (*take)(Layer& layer, const std::function<std::size_t(std::size_t)>& from);
};

template <Tensor LayerTensors::*W, Tensor LayerTensors::*bias>
void take_columns(Layer& layer, const std::function<std::size_t(std::size_t)>& from) {
  layer.*W = columns_from(layer.*W, from), layer.*bias = columns_from(layer.*bias, from);
}
template <LinearMap FeedForward::*map>
void take_outputs(Layer& layer, const std::function<std::size_t(std::size_t)>& from) {
  LinearMap& own = own_block(layer).mlp.*map;
  own = with_outputs(own, from);
}

constexpr Outputs all_outputs[]{
    {"weight.shards.q", "W_q", Stage::q, take_columns<&Layer::W_q, &Layer::b_q>},
    {"weight.shards.k", "W_k", Stage::k, take_columns<&Layer::W_k, &Layer::b_k>},
    {"weight.shards.v", "W_v", Stage::v, take_columns<&Layer::W_v, &Layer::b_v>},
    {"mlp.shards", "the feed-forward's first weight", Stage::mlp_pre,
     take_outputs<&FeedForward::in>},
    {"mlp.shards", "the feed-forward's other factor", Stage::mlp_up,
     take_outputs<&FeedForward::up>}};

Change parts_change(const std::vector<const Outputs*>& outputs,
                    const std::vector<std::size_t>& order, std::size_t n) {
  StageSet touched;
  for (const Outputs* one : outputs) touched.add(one->stage);
  Change change{
      outputs.front()->id, touched,
      fmt::format("uses parts {} of {} in this order", fmt::join(order, ", "),
                  outputs.size() > 1 ? "the feed-forward's first weights" : outputs.front()->name),
      fmt::format("join the {} ranks' parts from the first to the last", order.size()),
      [outputs, order, n](Layer& edited) {
        const std::size_t part = n / order.size();
        for (const Outputs* one : outputs)
          one->take(edited,
                    [&](std::size_t i) { return order[within(i, n) / part] * part + i % part; });
      }};
  change.fitted = change.rare = true;
  return change;
}

} // namespace

void CauseSearch::fit_parts(Trials& trials, Changes& candidates) {
  const Stage stage = trials.target().stage;
  const auto made = std::ranges::find(all_outputs, stage, &Outputs::stage);
  if (made == std::end(all_outputs)) return;
  const Tensor ours = trials.value();
  const Tensor& theirs = trials.target().theirs;
  const std::size_t n = ours.shape().back();
  for (const std::size_t ranks : rank_counts) {
    if (n % ranks != 0) continue;
    const std::vector<std::size_t> order = parts_between(ours, theirs, ranks);
    if (order.empty()) continue;
    candidates.push_back(keep(parts_change({made}, order, n)));
    if (stage == Stage::mlp_pre && layer_.block->mlp.gated())
      candidates.push_back(keep(parts_change({made, &all_outputs[4]}, order, n)));
    return;
  }
}

} // namespace mha
