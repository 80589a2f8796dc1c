#include <mha/model/exact_pass.hpp>

#include <mha/layer/graph.hpp>
#include <mha/observe/trace.hpp>

namespace mha {

std::map<Stage, Tensor> ExactPass::stages(const std::string& id, const std::vector<Stage>& wanted,
                                          std::size_t threads) {
  if (!model_) {
    model_.emplace(open_());
    model_->threads = threads;
  }
  const LoadedLayer loaded = model_->load(id);
  const StageSet available = available_stages(loaded.layer);
  std::vector<Stage> there;
  for (Stage stage : wanted)
    if (contains(available, stage)) there.push_back(stage);
  std::map<Stage, Tensor> values;
  if (there.empty()) return values;
  const Trace kept = trace(loaded.layer, there, {}, threads, model_->compute());
  for (Stage stage : there) values[stage] = kept.value(stage);
  return values;
}

} // namespace mha
