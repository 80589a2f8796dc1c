// Runs of one layer: stages are kept, or passed to a function while they are computed.

#include <mha/api/cache.hpp>
#include <mha/api/in_order.hpp>
#include <mha/api/visit.hpp>
#include <mha/api/wishes.hpp>
#include <mha/layer/graph.hpp>
#include <mha/naming/stage_names.hpp>
#include <mha/observe/compute.hpp>
#include <mha/observe/trace.hpp>
#include <mha/system/limits.hpp>
#include <mha/system/words.hpp>

#include <utility>

namespace mha {

namespace {

StageSet set_of(const std::vector<Stage>& stages) {
  if (stages.empty()) fail("no stage is asked for");
  return StageSet(stages);
}

} // namespace

std::size_t api::bytes_of(const Layer& layer, const StageSet& stages) {
  std::size_t bytes = 0;
  for (const Stage stage : stages)
    bytes += count_of(layer.shape_of(stage)) * size_of(layer.dtype_of(stage));
  return bytes;
}

std::shared_ptr<Cache::State> api::empty_cache(const Layer& layer, const StageSet& stages,
                                               std::string name) {
  auto state = std::make_shared<Cache::State>();
  state->dtype = layer.dtype;
  state->available = available_stages(layer);
  state->layer = std::move(name);
  for (const Stage stage : stages) {
    require_stage(layer, stage, state->available);
    state->order.push_back(stage);
  }
  return state;
}

Cache api::computed(const Layer& layer, const StageSet& stages, std::size_t threads,
                    std::string name) {
  const std::shared_ptr<Cache::State> state = empty_cache(layer, stages, std::move(name));
  Trace kept(layer, state->order);
  compute(layer, make_plan(layer, kept.wants()), kept, threads);
  for (Stage stage : state->order) state->kept.emplace(stage, kept.value(stage));
  return Cache(state);
}

std::vector<Stage> Cache::stages() const {
  return state_->order;
}
bool Cache::has(Stage stage) const {
  return state_->kept.contains(stage);
}
DType Cache::dtype() const {
  return state_->dtype;
}

Tensor Cache::tensor(Stage stage) const {
  (void)name_of(stage); // throws Error for an invalid stage
  const auto kept = state_->kept.find(stage);
  if (kept != state_->kept.end()) return kept->second.read_only();
  if (contains(state_->available, stage) || is_derived(stage))
    fail("{} was not asked for; {} has {}", name_of(stage),
         state_->order.empty() ? "nothing" : "the cache", joined_names(state_->order));
  fail("{} has no {}; it has {}", state_->layer, name_of(stage), joined_names(state_->available));
}

Tensor Cache::tensor(std::string_view name) const {
  return api::visiting([&] { return tensor(stage_named(name)); });
}

namespace {

Cache run_stages(const Layer& layer, const StageSet& stages, std::size_t threads) {
  require_memory(api::bytes_of(layer, stages), "the stages asked for",
                 "ask for fewer, or stream one: mha::stream");
  return api::computed(layer, stages, threads);
}

} // namespace

Cache run(const Layer& layer) {
  return api::visiting([&] {
    const StageSet all = available_stages(layer);
    if (all.none()) fail("the layer has no stage: neither X nor one that is given");
    return run_stages(layer, all, 0);
  });
}

Cache run(const Layer& layer, const std::vector<Stage>& stages, std::size_t threads) {
  return api::visiting([&] {
    const StageSet available = available_stages(layer);
    for (Stage stage : stages) (void)name_of(stage), require_stage(layer, stage, available);
    return run_stages(layer, set_of(stages), threads);
  });
}

Cache run(const Layer& layer, const std::vector<std::string>& stages, std::size_t threads) {
  return api::visiting([&] {
    std::vector<Stage> named;
    for (const std::string& name : stages) named.push_back(stage_named(name));
    return run(layer, named, threads);
  });
}

void stream(const Layer& layer, Stage stage, const std::function<void(Place, Tensor)>& use,
            std::size_t threads) {
  api::visiting([&] {
    if (!use) fail("stream: there is no function that gets the rows");
    require_stage(layer, stage);
    const Plan plan = make_plan(layer, {stage});
    api::InOrder rows(layer, stage, use);
    compute(layer, plan, rows, threads);
    rows.finish();
  });
}

void stream(const Layer& layer, std::string_view stage,
            const std::function<void(Place, Tensor)>& use, std::size_t threads) {
  stream(layer, api::visiting([&] { return stage_named(stage); }), use, threads);
}

} // namespace mha
