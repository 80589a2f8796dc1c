#include <mha/compare/readings.hpp>

#include <mha/compare/compare.hpp>
#include <mha/compare/layer_reference.hpp>
#include <mha/compare/names.hpp>
#include <mha/compare/settle.hpp>
#include <mha/files/text.hpp>
#include <mha/load/families/family.hpp>
#include <mha/load/source.hpp>
#include <mha/observe/trace.hpp>
#include <mha/system/clock.hpp>
#include <mha/system/words.hpp>

namespace mha {

std::optional<WholeModelOfLayer> whole_model_of(const OpenedModel& model) {
  if (!model.texts()) return std::nullopt;
  const Texts& texts = *model.texts();
  const Embedding& embedding = texts.embedding();
  WholeModelOfLayer whole;
  whole.layers = texts.layers().size(), whole.last_norm = texts.model().last_norm().present();
  whole.bare_embedding = embedding.positions.empty() && embedding.types.empty() &&
                         embedding.scale == 1 && !embedding.norm.present();
  whole.attention_returns = texts.model().description().attention_returns;
  whole.mlp_returns = texts.model().description().mlp_returns;
  whole.one_layer = model.chosen().size() == 1 && !model.chosen()[0].empty();
  return whole;
}

SameText require_same_text(const OpenedModel& model, const ReferenceFiles& against) {
  if (!model.texts()) return {};
  const Texts& texts = *model.texts();
  const WholeModel& whole = texts.model();
  SameText same = keep_same_text(
      against, {texts.ids(), &texts.embedding(), whole.causal(), whole.pad(), texts.lengths()});
  if (!same.why.empty()) fail("<against> {}", same.why);
  return same;
}

void require_layer_of_stages(const ReferenceFiles& against, std::size_t layers) {
  if (layers < 2) return;
  const auto refuse = [&](const std::string& where, const std::string& stage) {
    fail("<against> {}: {} of which layer? {} are compared: layers.N.{} is expected, or {{layer}} "
         "in the path; or choose one with <layer>",
         io::shown(where), io::shown(stage), layers, io::shown(stage));
  };
  const auto names_layer = [](const std::string& name) {
    return naming::layer_number(name) || without_layer_suffix(name).second;
  };
  for (const std::string& text : against.texts()) {
    const io::Source source = io::parse_source(text);
    if (io::mentions_layer(source) || source.axes.find('L') != std::string::npos) continue;
    if (!source.name.empty() && !names_layer(source.name)) refuse(text, source.name);
    if (!source.name.empty()) continue;
    for (const io::Entry& entry : against.open(source.path)->contents().tensors)
      if (!names_layer(entry.name) && !result_stages(entry.name).empty() &&
          !is_of_model(result_stages(entry.name).front()))
        refuse(text, entry.name);
  }
}

namespace {

/// Takes derived stages out of the comparison: they are made of steps, and do not judge any.
void remove_derived(Reference& reference) {
  for (const ReferenceStage& theirs : reference.stages)
    if (is_derived(theirs.stage))
      reference.not_compared.push_back({std::string(name_of(theirs.stage)),
                                        "it is made of steps, which are judged; diff compares it"});
  std::erase_if(reference.stages,
                [](const ReferenceStage& theirs) { return is_derived(theirs.stage); });
}

} // namespace

std::vector<Reference> load_readings(const LoadedLayer& loaded, const ReferenceFiles& against,
                                     Effort& effort, const WholeModelOfLayer* model) {
  Reference reference = read_or_compute(loaded, against, effort, model);
  remove_derived(reference);
  if (!model && reference.stages.empty() && reference.ambiguous.empty())
    fail("<against>: no stage of this layer's shape is in it: {}",
         joined_texts(reference.not_compared, "; ", &NotCompared::text));
  std::vector<Reference> readings;
  effort.compute_s +=
      seconds_of([&] { readings = settled(loaded.layer, std::move(reference), effort.threads); });
  return readings;
}

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
  std::size_t searched = 0;
  for (const std::string& id : layers) {
    if (id == layer) continue;
    if (++searched > most_layers) break;
    try {
      if (has_value_of(model.load(id).layer, known, threads)) return id;
    } catch (const Error&) { // a layer of another kind, or an incomplete one
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
  } catch (const Error&) { // the options fit a single layer only
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
