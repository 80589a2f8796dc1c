#include <mha/model/value_runs.hpp>

namespace mha {

UnpatchedValues ValueRuns::stage(std::size_t n, Stage stage, const std::string& value) {
  const std::lock_guard hold(lock_);
  const std::tuple key(value, n, stage);
  if (const auto known = stages_.find(key); known != stages_.end()) return known->second;
  std::unique_ptr<Streams>& run = runs_[value];
  if (!run) run = std::make_unique<Streams>(make_(value));
  UnpatchedValues values(run->stage(n, stage));
  if (value != "mean") { // of other texts, whose places are others
    values.lengths = run->layers().texts().lengths();
    values.tokens = tokens_alone(run->layer(n));
  }
  return stages_.emplace(key, std::move(values)).first->second;
}

const ResolvedEdit& put_on(Layer& layer, StageEdit edit, std::size_t number,
                           const UnpatchedStage& unpatched) {
  if (edit.place.stage == Stage::embed && !layer.ends) edit.place.stage = Stage::resid_pre;
  try {
    layer.patches.add(patch_of(edit, layer, number, unpatched));
  } catch (const Error& error) {
    if (std::string_view(error.what()).starts_with(edit.text)) throw;
    fail("{}: {}", edit.text, error.message());
  }
  return layer.patches.list.back();
}

} // namespace mha
