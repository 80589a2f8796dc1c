#include "other_layers.hpp"

#include <mha/compare/compare.hpp>
#include <mha/model/opened_model.hpp>
#include <mha/observe/trace.hpp>

namespace mha::app {

namespace {

constexpr std::size_t most_layers = 128;

/// Whether a layer's own value of the stage is the reference's.
bool has_value_of(const Layer& layer, const ReferenceStage& known, std::size_t threads) {
  if (layer.shape_of(known.stage) != known.value.shape()) return false;
  const Tensor ours = trace(layer, {known.stage}, {}, threads).value(known.stage);
  const Tolerance tolerance = default_tolerance(coarser_of(layer.dtype, known.stored));
  const Difference found = compare(layer, known.stage, ours, known.value, tolerance, known.stored);
  return found.within || found.cosine > 0.9999;
}

std::string other_layer_in(RunRequest all, const std::string& layer, const ReferenceStage& known,
                           const Common& common) {
  Common quietly = common;
  quietly.quiet = true, quietly.strict = quietly.progress = false;
  try {
    all.layer = "all";
    OpenedModel model(all);
    std::size_t looked = 0;
    for (const std::string& id : model.chosen()) {
      if (id == layer) continue;
      if (++looked > most_layers) break;
      try {
        if (has_value_of(load_layer(model, id, quietly).layer, known, common.threads)) return id;
      } catch (const Error&) { // a layer of another kind, or one that the files do not hold whole
      }
    }
  } catch (const Error&) { // what was typed is one layer's
  }
  return "";
}

} // namespace

std::string other_layer_of(const RunRequest& request, const std::string& layer,
                           const Reference& reference, Stage stage, const Common& common) {
  const ReferenceStage* known = reference.find(stage);
  if (!known || request.layer.empty()) return "";
  RunRequest all = request;
  all.same_x = true;
  return other_layer_in(std::move(all), layer, *known, common);
}

std::string other_layer_of_text(const RunRequest& request, const std::string& layer,
                                const ReferenceStage& known, const Common& common) {
  return known.in_part ? "" : other_layer_in(request, layer, known, common);
}

} // namespace mha::app
