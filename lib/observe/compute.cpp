#include <mha/observe/compute.hpp>

#include <mha/forward/attention.hpp>
#include <mha/schedule/padding.hpp>
#include <mha/schedule/patching.hpp>

#include <algorithm>

namespace mha {

namespace {

template <class T>
PhaseTimes compute_in(Layer layer, const Plan& plan, Observer& observer, std::size_t threads) {
  const Clip clip = clip_of(layer);
  Schedule<T> run(std::move(layer), plan, observer, threads);
  if (run.layer().ends)
    unembed(run.layer(), run);
  else
    transformer_block(run.layer(), clip, run);
  return run.times();
}

} // namespace

PhaseTimes compute(Layer layer, const Plan& plan, Observer& observer, std::size_t threads) {
  require_plan_of(layer, plan);
  if (std::ranges::any_of(plan.wanted, is_derived))
    return compute_derived(std::move(layer), plan, observer, threads);
  for (const ResolvedEdit& patch : layer.patches.list)
    if (contains(plan.needed, patch.stage) ||
        (patch.stage == Stage::concat && contains(plan.needed, Stage::head_out)))
      *patch.is_read = true;
  layer = with_patched_inputs(std::move(layer));
  show_padding(layer, plan, observer, threads);
  return layer.dtype == DType::f64 ? compute_in<double>(std::move(layer), plan, observer, threads)
                                   : compute_in<float>(std::move(layer), plan, observer, threads);
}

} // namespace mha
