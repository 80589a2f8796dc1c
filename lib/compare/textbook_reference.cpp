#include <mha/compare/layer_reference.hpp>

#include <mha/layer/graph.hpp>
#include <mha/system/clock.hpp>
#include <mha/system/limits.hpp>
#include <mha/textbook.hpp>
#include <mha/xtensor.hpp>

namespace mha {

namespace {

/// The stages of attention that the layer computes. The textbook does not have the steps around
/// attention.
std::vector<Stage> computed_stages(const Layer& layer) {
  std::vector<Stage> stages;
  for (const Stage stage : available_stages(layer)) {
    const bool is_around = is_stream(stage) || (stage == Stage::residual && layer.block);
    if (!is_around && !layer.has_given(stage)) stages.push_back(stage);
  }
  return stages;
}

/// Each stage is in memory twice for a moment, computed and converted.
void require_memory_for(const Layer& layer, const std::vector<Stage>& stages) {
  std::size_t bytes = 0;
  for (const Stage stage : stages) bytes += 2 * sizeof(double) * count_of(layer.shape_of(stage));
  require_memory(bytes, "the textbook's stages", message("give fewer tokens"));
}

} // namespace

Reference textbook_reference(const LoadedLayer& ours, Effort& effort) {
  Reference reference;
  const std::vector<Stage> stages = computed_stages(ours.layer);
  if (stages.empty() && !ours.layer.ends)
    fail("<against> textbook: every stage of this layer is given, and none is left to compute");
  require_memory_for(ours.layer, stages);
  effort.compute_s += seconds_of([&] {
    for (auto& [stage, value] : textbook::compute(ours.layer, stages)) {
      ReferenceStage theirs;
      theirs.stage = stage, theirs.stored = DType::f64;
      theirs.value = tensor(std::move(value));
      theirs.source = theirs.origin = fmt::format("textbook: {}", name_of(stage));
      reference.stages.push_back(std::move(theirs));
    }
  });
  if (!stages.empty())
    reference.notes.emplace_back("the textbook computes in float64, by the formulas of "
                                 "mha/textbook.hpp");
  return reference;
}

} // namespace mha
