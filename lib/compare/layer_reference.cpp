#include <mha/compare/layer_reference.hpp>

#include <mha/compare/names.hpp>
#include <mha/files/text.hpp>
#include <mha/layer/graph.hpp>
#include <mha/layer/names.hpp>
#include <mha/load/source.hpp>
#include <mha/model/opened_model.hpp>
#include <mha/naming/tensor_names.hpp>
#include <mha/observe/trace.hpp>
#include <mha/system/characters.hpp>
#include <mha/system/clock.hpp>
#include <mha/system/words.hpp>

#include <algorithm>

namespace mha {

namespace {

bool is_weight(const std::string& name) {
  const std::string_view word = last_part(name);
  const TensorInfo* info = find_tensor_name(word);
  return word == "weight" || (info && info->role == TensorRole::weight);
}

/// The parts of our layer that a reference's layer lacks and is computed with.
struct Lent {
  bool X = false, heads = false;
};

/// The files as a layer's sources.
RunRequest request_of(const LoadedLayer& ours, const ReferenceFiles& against, const Lent& lent,
                      const std::string& layer) {
  RunRequest request;
  request.layer = layer;
  for (const std::string& text : against.texts())
    request.sources.push_back(io::with_layer(io::parse_source(text), ours.id).path);
  if (lent.heads) {
    request.settings.emplace_back("num_heads", std::to_string(ours.layer.dims.H));
    request.settings.emplace_back("num_kv_heads", std::to_string(ours.layer.dims.H_kv));
  }
  if (lent.X) {
    const Tensor& X = ours.layer.X; // B, T, d_model
    const Shape shape =
        ours.layer.dims.batched ? X.shape() : Shape(X.shape().begin() + 1, X.shape().end());
    request.bound.emplace_back("X", X.reshaped(shape));
  }
  return request;
}

/// Opens the reference's layer, with as little lent as possible. Throws the first Error if it
/// cannot be computed with anything lent.
LoadedLayer open_layer(const LoadedLayer& ours, const ReferenceFiles& against, Lent& lent) {
  std::optional<Error> why;
  const bool has_X = !ours.layer.X.empty() && !ours.layer.settings.columns;
  for (const Lent& tried : {Lent{}, Lent{true, false}, Lent{false, true}, Lent{true, true}})
    for (const std::string& layer : {ours.id, std::string()}) {
      if ((tried.X && !has_X) || (layer.empty() && !ours.id.empty() && tried.X && tried.heads))
        continue;
      try {
        OpenedModel model(request_of(ours, against, tried, layer));
        LoadedLayer loaded = model.load(model.chosen().front());
        if (loaded.layer.W_q.empty() && loaded.layer.W_k.empty() && loaded.layer.W_v.empty() &&
            loaded.layer.W_o.empty())
          fail("no projection of a layer is in it");
        if (!available_stages(loaded.layer).any()) fail("X is not in it");
        lent = tried;
        return loaded;
      } catch (const Error& error) {
        if (!why) why = error;
      }
    }
  throw *why;
}

/// Adds a stage of the computed layer to the reference.
void take(const Layer& ours, Stage stage, const Tensor& value, const std::string& file,
          Reference& reference) {
  const std::string name(name_of(stage));
  if (!contains(available_stages(ours), stage)) {
    const bool has = has_step(ours, stage);
    if (!has) reference.lacking.add(stage);
    reference.not_compared.push_back({name, has ? fmt::format("{} cannot be computed here", name)
                                                : fmt::format("this layer has no {}", name)});
  } else if (value.shape() != ours.shape_of(stage)) {
    reference.not_compared.push_back(
        {name,
         fmt::format("is {}: {} is {} in this layer", to_string(value.shape()), name,
                     to_string(ours.shape_of(stage))),
         stage, value.shape(), ours.shape_of(stage)});
  } else {
    ReferenceStage theirs;
    theirs.stage = stage, theirs.value = value, theirs.stored = value.dtype();
    theirs.source = fmt::format("{}: {}, computed", file, name);
    theirs.origin = theirs.source;
    reference.stages.push_back(std::move(theirs));
  }
}

Reference compute(const LoadedLayer& ours, const ReferenceFiles& against, Effort& effort) {
  const std::string file = io::shown(against.texts().front());
  Reference reference;
  Lent lent;
  try {
    const LoadedLayer theirs = open_layer(ours, against, lent);
    const StageSet available = available_stages(theirs.layer);
    const std::vector<Stage> wanted(available.begin(), available.end());
    effort.compute_s += seconds_of([&] {
      const Trace all = trace(theirs.layer, wanted, {}, effort.threads);
      for (Stage stage : wanted) take(ours.layer, stage, all.value(stage), file, reference);
    });
  } catch (const Error& error) {
    std::string sources;
    for (const std::string& text : against.texts()) sources += " " + shell_word(text);
    fail("<against> {}: it holds the weights of a layer, which cannot be computed: {}; compute it "
         "with what it lacks, and compare with that: mha-inspect dump{} -o theirs.npz, then "
         "<against> theirs.npz",
         file, error.message(), sources);
  }
  reference.notes.push_back(
      fmt::format("{} is a layer: its stages are computed, by the settings that are in it{}", file,
                  lent.X && lent.heads ? "; X and the heads are this layer's"
                  : lent.X             ? "; X is this layer's"
                  : lent.heads         ? "; the heads are as many as this layer's"
                                       : ""));
  return reference;
}

bool is_layer_input(Stage stage) {
  return stage == Stage::x || stage == Stage::resid_pre;
}

/// Whether a tensor beside the weights has the name of a stage after the input.
bool names_steps(const ReferenceFiles& against) {
  const auto is_step = [](const io::Entry& entry) {
    const std::vector<Stage> stages = result_stages(entry.name);
    return !is_weight(entry.name) && !find_tensor_name(last_part(entry.name)) &&
           std::ranges::any_of(stages, [](Stage stage) { return !is_layer_input(stage); });
  };
  return std::ranges::any_of(against.texts(), [&](const std::string& text) {
    return std::ranges::any_of(against.open(io::parse_source(text).path)->contents().tensors,
                               is_step);
  });
}

/// Whether a reference has a stage after the input, or a tensor that seems meant as one.
bool has_steps(const Reference& reference) {
  return !reference.ambiguous.empty() || !reference.not_compared.empty() ||
         std::ranges::any_of(reference.stages,
                             [](const ReferenceStage& one) { return !is_layer_input(one.stage); });
}

} // namespace

bool holds_weights(const ReferenceFiles& against) {
  return std::ranges::all_of(against.texts(), [&](const std::string& text) {
    const io::Source source = io::parse_source(text);
    if (!source.name.empty() || io::mentions_layer(source)) return false;
    return std::ranges::any_of(against.open(source.path)->contents().tensors,
                               [](const io::Entry& entry) { return is_weight(entry.name); });
  });
}

Reference read_or_compute(const LoadedLayer& ours, const ReferenceFiles& against, Effort& effort,
                          const WholeModelOfLayer* model) {
  if (against.is_textbook()) return textbook_reference(ours, effort);
  const auto read = [&] {
    Reference reference;
    effort.read_s +=
        seconds_of([&] { reference = read_reference(ours.layer, against, ours.id, model); });
    return reference;
  };
  if (model || !holds_weights(against) || names_steps(against)) return read();
  try {
    Reference reference = read();
    if (has_steps(reference)) return reference;
  } catch (const Error&) { // no stage is in it
  }
  return compute(ours, against, effort);
}

} // namespace mha
