// Patches of programs: made, and put on the layers of a run.

#include <mha/api/model_state.hpp>
#include <mha/api/visit.hpp>
#include <mha/model/patcher.hpp>
#include <mha/observe/not_finite.hpp>
#include <mha/observe/trace.hpp>

#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>

namespace mha {

namespace {

AxisPositions positions_of(const Indexes& axis, const std::string& place) {
  if (axis.all()) return {};
  if (axis.list().empty()) fail("{}: a list of no indexes", place);
  return AxisPositions(axis.list());
}

std::shared_ptr<Patch::State> state_of(const At& at, PatchOp op, EditValue value) {
  auto state = std::make_shared<Patch::State>();
  state->at = at;
  StagePlace place;
  place.name = name_of(at.stage), place.stage = at.stage;
  if (!at.layer.id().empty()) {
    place.name = fmt::format("layers.{}.{}", at.layer.id(), place.name);
    if (is_of_model(at.stage))
      fail("{}: {} is of the whole model, and of no layer: leave the layer out", place.name,
           name_of(at.stage));
  }
  place.set_axes({positions_of(at.heads, place.name), positions_of(at.tokens, place.name),
                  positions_of(at.columns, place.name)});
  state->edit = StageEdit::of(std::move(place), op, std::move(value));
  return state;
}

/// A program exchanges tensors by `with`.
StageEdit parse_stage_edit(const std::string& text) {
  StageEdit edit = parse_edit(text);
  if (is_of_tensor(edit))
    fail("{}: {} is a tensor: with(\"{}\", tensor) exchanges it; patches are of stages", text,
         edit.place.name, edit.place.name);
  return edit;
}

/// A patch of a value at a written place, which may end in "+=", "-=" or "*=".
std::shared_ptr<Patch::State> state_written(std::string place, EditValue value) {
  while (place.ends_with(' ')) place.pop_back();
  if (!place.ends_with('=')) place += " =";
  auto state = std::make_shared<Patch::State>();
  StageEdit edit = parse_stage_edit(place + " 0");
  value.factor *= edit.value.factor; // -1 of "-="
  edit.text = fmt::format("{} {}", place, value.text);
  edit.value = std::move(value);
  state->edit = std::move(edit);
  return state;
}

void require_numbers(const std::string& place, const Tensor& value) {
  if (value.empty()) fail("{}: the tensor is empty: it has neither numbers nor a shape", place);
}

} // namespace

Patch::Patch(const char* text) : Patch(text_of_pointer(text)) {}

Patch::Patch(std::string text) {
  auto state = std::make_shared<State>();
  api::visiting([&] { state->edit = parse_stage_edit(text); });
  state_ = std::move(state);
}

Patch::Patch(std::string place, Tensor value) {
  api::visiting([&] {
    require_numbers(place, value);
    state_ = Shared<const State>(state_written(place, EditValue::of_tensor(std::move(value))));
  });
}

Patch Patch::set(const At& at, Tensor value) {
  require_numbers("Patch::set", value);
  return Patch(state_of(at, PatchOp::set, EditValue::of_tensor(std::move(value))));
}
Patch Patch::set(const At& at, double value) {
  return Patch(state_of(at, PatchOp::set, EditValue::of_number(value)));
}
Patch Patch::add(const At& at, Tensor value) {
  require_numbers("Patch::add", value);
  return Patch(state_of(at, PatchOp::add, EditValue::of_tensor(std::move(value))));
}
Patch Patch::add(const At& at, double value) {
  return Patch(state_of(at, PatchOp::add, EditValue::of_number(value)));
}
Patch Patch::multiply(const At& at, Tensor value) {
  require_numbers("Patch::multiply", value);
  return Patch(state_of(at, PatchOp::multiply, EditValue::of_tensor(std::move(value))));
}
Patch Patch::multiply(const At& at, double value) {
  return Patch(state_of(at, PatchOp::multiply, EditValue::of_number(value)));
}
Patch Patch::zero(const At& at) {
  return Patch(state_of(at, PatchOp::set, EditValue::zero()));
}
Patch Patch::mean(const At& at) {
  return Patch(state_of(at, PatchOp::set, EditValue::of_mean()));
}

namespace {

std::shared_ptr<Patch::State> with_run(std::shared_ptr<Patch::State> state, const Run& run) {
  state->other = run.state();
  return state;
}

std::shared_ptr<Patch::State> with_function(std::shared_ptr<Patch::State> state,
                                            std::function<Tensor(Place, Tensor)> function) {
  if (!function) fail("{}: there is no function", state->edit.place.name);
  state->function = std::move(function);
  return state;
}

EditValue of_run() {
  return EditValue::of_run("from another run");
}
EditValue of_function() {
  return EditValue::of_run("from a function");
}

} // namespace

Patch Patch::from(const At& at, const Run& run) {
  return Patch(with_run(state_of(at, PatchOp::set, of_run()), run));
}
Patch Patch::from(const std::string& place, const Run& run) {
  return api::visiting([&] { return Patch(with_run(state_written(place, of_run()), run)); });
}
Patch Patch::rows(const At& at, std::function<Tensor(Place, Tensor)> function) {
  return Patch(with_function(state_of(at, PatchOp::set, of_function()), std::move(function)));
}
Patch Patch::rows(const std::string& place, std::function<Tensor(Place, Tensor)> function) {
  return api::visiting([&] {
    return Patch(with_function(state_written(place, of_function()), std::move(function)));
  });
}

namespace {

/// The place with its layer's number.
StagePlace placed(const Patch::State& patch, const Model::State& model) {
  StagePlace place = patch.edit.place;
  const std::string& text = patch.edit.text;
  if (patch.at && !patch.at->layer.id().empty() && !is_of_model(place.stage)) {
    const std::size_t n = model.number_of(patch.at->layer);
    place.layers = {n, n};
  }
  if (is_of_model(place.stage)) return place;
  place.count_from_first(model.layers(), text);
  if (!place.names_layer()) {
    if (model.layers() != 1)
      fail("{}: of which layer? Give it as layers.N.{} (or layers.*.{})", text, place.name,
           place.name);
    place.every_layer = true;
  }
  if (place.layers && place.layers->second >= model.layers())
    fail("{}: there is no layer {}: the model's layers are 0 to {}", text, place.layers->second,
         model.layers() - 1);
  return place;
}

/// A stage with each row replaced by what a function makes of it: batch, heads, rows, columns.
Tensor rows_of_function(const Patch::State& patch, Stage stage, const Layer& layer,
                        const Tensor& whole) {
  const std::vector<Dim>& letters = info_of(stage).letters;
  const bool with_columns = info_of(stage).kind != Kind::row;
  const bool with_heads = letters.size() == 3 || !with_columns;
  const Shape& shape = whole.shape();
  const std::size_t heads = with_heads ? shape[1] : 1, rows = shape[with_heads ? 2 : 1],
                    width = with_columns ? shape.back() : 1, bytes = width * size_of(whole.dtype());
  const PlaceAxes chosen = axes_of(patch.edit.place, layer, stage, patch.edit.text);
  Tensor result = copy_of(view_of(whole));
  for (std::size_t b = 0; b < shape[0]; ++b)
    for (const std::size_t h : chosen.heads)
      for (const std::size_t t : chosen.tokens[b]) {
        std::byte* const row = result.raw_mutable() + ((b * heads + h) * rows + t) * bytes;
        Tensor before = Tensor::uninitialised(whole.dtype(), {1, width});
        std::memcpy(before.raw_mutable(), row, bytes);
        const Tensor after = patch.function(Place{b, h, t, 1}, before);
        if (after.count() != width)
          fail("{}: the function made {} of a row of {}", patch.edit.text, to_string(after.shape()),
               width);
        std::memcpy(row, convert(after, whole.dtype()).raw(), bytes);
      }
  return result;
}

/// Throws Error where another run lacks this run's places. It needs the same model, whatever
/// weights were changed, and as many tokens, in one text for all or text by text.
void require_same_texts(const Run::State& run, const Run::State& other, const std::string& text) {
  if (other.model->weights != run.model->weights)
    fail("{}: the other run is of another model; keep the stage there, and give its tensor", text);
  if (other.streams.empty()) fail("{}: the other run kept no streams", text);
  const std::size_t texts = run.tokens.count(), theirs = other.tokens.count();
  if (theirs != 1 && theirs != texts)
    fail("{}: the other run has {}, this one {}: one, or as many, expected", text,
         counted(theirs, "texts"), texts);
  for (std::size_t b = 0; b < texts; ++b) {
    const std::size_t own = run.tokens.length(b), length = other.tokens.length(theirs == 1 ? 0 : b);
    if (own != length)
      fail(
          "{}: the other run's text {} has {}, this one's {}: the same place needs the same number "
          "of tokens; their pieces show both",
          text, theirs == 1 ? 0 : b, counted(length, "tokens"), own);
  }
}

UnpatchedValues value_of(const Run::State& run, const Patch::State& patch, const Layer& layer,
                         std::size_t n, Stage stage, const std::string& value) {
  if (patch.function)
    return rows_of_function(patch, stage, layer, whole_stage(layer, stage, run.threads));
  if (patch.other) {
    const Run::State& other = *patch.other;
    require_same_texts(run, other, patch.edit.text);
    std::vector<api::PutPatch> put;
    Layer other_layer = n < run.model->layers() ? other.layers->layer(other.streams[n])
                                                : other.layers->ends(other.streams.back().x);
    api::patch_layer(other, other_layer, n, put);
    return whole_stage(other_layer, stage, run.threads);
  }
  return run.values->stage(n, stage, value);
}

/// A warning where a value has NaN or infinity, which spreads; but a score of −inf hides a key.
std::string doubt_about(const ResolvedEdit& patch) {
  const std::string found = not_finite_in(patch.stage, patch.value);
  return found.empty() ? ""
                       : fmt::format("{}: the value has {}: everything computed from them is lost",
                                     patch.text, found);
}

} // namespace

void Run::State::take_values() {
  values = std::make_shared<ValueRuns>(
      [model = model,
       layers = layers](const std::string& value) -> std::shared_ptr<const TextLayers> {
        if (value == "mean") return layers;
        return model->layers_for(
            std::make_shared<const Texts>(model->weights, texts_named(value, Text{}, value)));
      });
}

void api::patch_layer(const Run::State& run, Layer& layer, std::size_t n,
                      std::vector<PutPatch>& put) {
  const bool of_ends = n == run.model->layers();
  for (std::size_t i = 0; i < run.patches.size(); ++i) {
    const Patch::State& patch = *run.patches[i].state();
    StageEdit edit = patch.edit;
    edit.place = placed(patch, *run.model);
    const bool is_embed_of_first = edit.place.stage == Stage::embed && n == 0;
    const bool is_of = is_of_model(edit.place.stage) ? of_ends || is_embed_of_first
                                                     : !of_ends && edit.place.is_of(n);
    if (!is_of) continue;
    const ResolvedEdit& resolved =
        put_on(layer, std::move(edit), n, [&](Stage stage, const std::string& value) {
          return value_of(run, patch, layer, n, stage, value);
        });
    put.push_back({i, resolved.is_read, doubt_about(resolved)});
  }
}

void api::require_read(const Run::State& run, const std::vector<PutPatch>& put,
                       std::size_t first_new) {
  for (std::size_t i = first_new; i < run.patches.size(); ++i) {
    const StageEdit& edit = run.patches[i].state()->edit;
    const Stage stage = edit.place.stage;
    if (is_of_model(stage) && stage != Stage::embed) continue; // read with the logits
    const bool is_read = std::ranges::any_of(
        put, [&](const PutPatch& one) { return one.patch == i && one.is_read->load(); });
    if (!is_read)
      fail("{}: nothing that a run computes reads {}; <stages page> shows what is computed "
           "from which",
           edit.text, name_of(stage));
  }
}

std::size_t api::first_patched(const Model::State& model, const std::vector<Patch>& patches) {
  std::size_t first = model.layers();
  for (const Patch& patch : patches) {
    const StagePlace place = placed(*patch.state(), model);
    if (place.stage == Stage::embed || place.every_layer)
      first = 0;
    else if (!is_of_model(place.stage))
      first = std::min(first, place.layers->first);
  }
  return first;
}

} // namespace mha
