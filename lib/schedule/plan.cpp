#include <mha/schedule/plan.hpp>

#include <mha/schedule/visible.hpp>
#include <mha/system/parallel.hpp>

#include <algorithm>

namespace mha {

namespace {

void close_over(const Layer& layer, const StageSet& available, Stage stage, Plan& plan) {
  if (contains(plan.needed, stage)) return;
  plan.needed.add(stage);
  if (layer.has_given(stage)) return;
  // A given concatenation replaces the heads' results where nothing could compute them.
  if (stage == last_of_heads(layer) && !can_compute(layer, stage, available)) {
    close_over(layer, available, Stage::concat, plan);
    return;
  }
  plan.computed.add(stage);
  for (Stage input : inputs_of(layer, stage)) close_over(layer, available, input, plan);
}

std::vector<std::size_t> sorted(std::vector<std::size_t> list) {
  std::sort(list.begin(), list.end());
  list.erase(std::unique(list.begin(), list.end()), list.end());
  return list;
}

} // namespace

Plan make_plan(const Layer& layer, const StageSet& wanted, Selection selection) {
  const StageSet available = available_stages(layer);
  Plan plan;
  plan.of = layer.dims;
  plan.wanted = wanted;
  for (const Stage stage : wanted) {
    require_stage(layer, stage, available);
    if (is_derived(stage))
      for (const Stage input : inputs_of(layer, stage)) close_over(layer, available, input, plan);
    else
      close_over(layer, available, stage, plan);
  }
  require_axes(layer, {wanted.begin(), wanted.end()}, selection);
  // A derived stage is made of whole ones.
  if (std::ranges::any_of(wanted, is_derived))
    selection.head.reset(), selection.query.reset(), selection.key.reset();

  const Dims& dims = layer.dims;
  plan.batches = sorted(chosen_items(layer, selection).indices);
  // The concatenation needs every head, and so does a norm over all of them.
  const bool joins_heads =
      contains(plan.computed, Stage::head_norm) && norms_heads_together(layer);
  const bool all_heads = contains(plan.computed, Stage::concat) || joins_heads;
  plan.heads = sorted(resolved(all_heads ? std::nullopt : selection.head, dims.H, "heads").indices);
  plan.queries = sorted(chosen_queries(layer, selection).indices);
  plan.block_numbers = plan.queries;
  for (std::size_t& block : plan.block_numbers) block /= block_queries;
  plan.block_numbers = sorted(plan.block_numbers);
  plan.whole_rows = joins_heads;
  for (const StageInfo& info : stages())
    if (info.stage == Stage::concat || info.stage == Stage::output ||
        info.stage == Stage::residual || is_stream(info.stage))
      plan.whole_rows = plan.whole_rows || contains(plan.wanted | plan.computed, info.stage);
  const std::vector<std::size_t> only_first{0};
  for (std::size_t batch : plan.batches)
    for (std::size_t head : plan.heads.empty() ? only_first : plan.heads)
      for (std::size_t block : plan.block_numbers.empty() ? only_first : plan.block_numbers)
        plan.blocks.push_back({batch, head, block});
  return plan;
}

void require_plan_of(const Layer& layer, const Plan& plan) {
  const auto refuse = [](std::string_view what) {
    fail("the plan was made for another layer, with other {}: make_plan makes one for this", what);
  };
  if (plan.of != layer.dims) refuse("sizes");
  for (const Stage stage : plan.computed) {
    if (layer.has_given(stage) || !has_step(layer, stage)) refuse("steps");
    for (Stage input : inputs_of(layer, stage))
      if (!contains(plan.needed, input)) refuse("steps");
  }
}

std::size_t threads_for(const Layer& layer) {
  // Threads that have nothing to do cost more than they bring.
  const Dims& dims = layer.dims;
  const auto product = [](auto... sizes) { return (static_cast<double>(sizes) * ...); };
  double work = 0;
  for (std::size_t b = 0; b < dims.B; ++b) {
    const std::size_t queries = layer.length_of(b), keys = keys_of(layer, b);
    work += product(queries + keys - dims.past, dims.d_model + dims.d_out,
                    dims.H * (dims.d_k + dims.d_v)) +
            product(dims.H * queries, keys + dims.extra + dims.zero, dims.d_k + dims.d_v);
  }
  return work < 4e6 ? 1 : core_count();
}

std::size_t threads_around(const Layer& layer) {
  const Dims& d = layer.dims;
  std::size_t rows = 0;
  for (std::size_t b = 0; b < d.B; ++b) rows += layer.length_of(b);
  const double work = static_cast<double>(rows) * static_cast<double>(d.d_model) *
                      static_cast<double>(std::max({d.d_ff, d.vocabulary, std::size_t(1)}));
  return work < 4e6 ? 1 : core_count();
}

} // namespace mha
