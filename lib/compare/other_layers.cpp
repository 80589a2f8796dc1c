#include <mha/compare/other_layers.hpp>

#include <mha/compare/compare.hpp>
#include <mha/observe/trace.hpp>

namespace mha {

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

std::string other_layer_in(OpenedModel& model, const std::vector<std::string>& layers,
                           const std::string& layer, const ReferenceStage& known,
                           std::size_t threads) {
  std::size_t looked = 0;
  for (const std::string& id : layers) {
    if (id == layer) continue;
    if (++looked > most_layers) break;
    try {
      if (has_value_of(model.load(id).layer, known, threads)) return id;
    } catch (const Error&) { // a layer of another kind, or one that the files do not hold whole
    }
  }
  return "";
}

} // namespace

std::string other_layer_of(const RunRequest& request, const std::string& layer,
                           const Reference& reference, Stage stage, std::size_t threads) {
  const ReferenceStage* known = reference.find(stage);
  if (!known || request.layer.empty()) return "";
  RunRequest all = request;
  all.same_x = true, all.layer = "all";
  try {
    OpenedModel model(all);
    return other_layer_in(model, model.chosen(), layer, *known, threads);
  } catch (const Error&) { // what was typed is one layer's
    return "";
  }
}

std::string other_layer_of_text(const OpenedModel& model, const std::string& layer,
                                const ReferenceStage& known, std::size_t threads) {
  if (known.in_part) return "";
  OpenedModel again(model, model.texts());
  return other_layer_in(again, model.texts()->layers(), layer, known, threads);
}

} // namespace mha
