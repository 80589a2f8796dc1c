#include "expert_stats.hpp"

#include "describe.hpp"
#include <mha/layer/graph.hpp>
#include <mha/render/stats.hpp>

namespace mha::app {

render::Table expert_stats(const RunRequest& request, const Selection& selection, Common& common) {
  OpenedModel model = open_model(request, common);
  std::vector<render::ExpertRows> rows;
  for (const std::string& id : model.chosen()) {
    const LoadedLayer loaded = load_layer(model, id, common);
    const Layer& layer = loaded.layer;
    const bool is_asked = model.chosen().size() == 1;
    if (is_asked) require_stage(layer, Stage::experts);
    if (!has_step(layer, Stage::experts)) continue;
    const Stopwatch watch(common.compute_s);
    rows.push_back(
        {id, measure_experts(layer, selection.placed(layer), model.compute(), common.threads)});
  }
  if (rows.empty()) fail("no layer has experts: --experts measures those of mixtures");
  return render::experts_table(rows);
}

} // namespace mha::app
