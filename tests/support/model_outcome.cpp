#include "support/model_outcome.hpp"

#include "support/run.hpp"

#include <mha/observe/compute.hpp>
#include <mha/load/leftovers.hpp>
#include <mha/load/load.hpp>
#include <mha/load/whole_model.hpp>
#include <mha/model/opened_model.hpp>
#include <mha/observe/trace.hpp>

#include <catch2/catch.hpp>

#include <algorithm>

namespace mha::test {

bool Outcome::says(const std::string& words) const {
  return refusal.find(words) != std::string::npos ||
         std::ranges::any_of(
             notes, [&](const std::string& note) { return note.find(words) != std::string::npos; });
}

Outcome compute_text(const io::Contents& model) {
  Outcome outcome;
  try {
    RunRequest request;
    request.in_memory = {model};
    request.text.ids = {"5,9,31,7,12,40,5,22,18"};
    OpenedModel opened(std::move(request));
    opened.threads = 1;
    const auto keep = [&](const Tensor& tensor) {
      outcome.bits.insert(outcome.bits.end(), tensor.raw(), tensor.raw() + tensor.bytes());
    };
    const auto note = [&](const LoadedLayer& loaded) {
      for (const Note& one : loaded.notes) outcome.notes.insert(one.text);
      for (const LayerWarnings& layer : loaded.on_the_way)
        for (const Note& one : layer.warnings) outcome.notes.insert(one.text);
    };
    for (const std::string& id : opened.chosen())
      if (!id.empty()) note(opened.load(id));
    const LoadedLayer behind = opened.ends_after(opened.texts()->layers().size());
    note(behind);
    const Layer& ends = behind.layer;
    keep(ends.ends->embed), keep(ends.ends->stream);
    for (const Stage stage : {Stage::final, Stage::logits}) {
      if (stage == Stage::final ? !ends.ends->final.present() : !ends.ends->head.present())
        continue;
      Trace trace(ends, {stage});
      compute(ends, make_plan(ends, trace.wants()), trace, 1);
      keep(trace.value(stage));
    }
    for (const Note& one : opened.texts()->notes()) outcome.notes.insert(one.text);
  } catch (const Error& error) {
    outcome.refusal = error.what();
  }
  return outcome;
}

Asked asked_of(io::Contents model) {
  for (const naming::FamilyRow* family : naming::families())
    if (family->present) family->present(model, model.config); // ALBERT's shared layers
  const std::vector<naming::Found> found = naming::find_layers(model, model.config);
  const WholeModel whole(found);
  std::vector<const naming::Found*> layers;
  for (const std::string& id : whole.layers())
    for (const naming::Found& layer : found)
      if (layer.id == id) layers.push_back(&layer);
  leftovers_of(layers, {});
  const naming::Reads& reads = *layers[0]->group.reads;
  const auto settings = reads.settings(), tensors = reads.tensors();
  Asked asked{{settings.begin(), settings.end()}, {tensors.begin(), tensors.end()}, {}};
  for (const io::Entry& entry : model.tensors) // under their names in the file
    if (reads.used(entry.name)) asked.used.insert(entry.name_in_file());
  return asked;
}

std::vector<std::string> make_tiny_models(const std::string& folder) {
  const std::vector<std::string> names{
      "gpt2", "nanogpt", "llama3.1",   "mistral", "qwen2",         "qwen3",
      "phi3", "gemma",   "gemma2",     "gemma3",  "gemma3-nested", "neox-parallel",
      "bert", "roberta", "distilbert", "albert",  "tl-ln",         "tl-rms-gated"};
  std::string list;
  for (const std::string& name : names) list += " " + name;
  const Result made = shell("/usr/bin/python3 tests/models/make.py " + folder + list);
  if (made.code == 0) return names;
  WARN("no NumPy, so no models: " << made.err);
  return {};
}

io::Contents copy_of(const io::Contents& model) {
  io::Contents contents = model;
  contents.order = nullptr; // of the names as they were
  return contents;
}

io::Entry entry_of(const std::string& name, DType dtype, const Shape& shape) {
  std::vector<double> numbers(count_of(shape));
  for (std::size_t i = 0; i < numbers.size(); ++i)
    numbers[i] = 0.01 * static_cast<double>((i * 37 + 11) % 101) - 0.4;
  const Tensor tensor = convert(Tensor::of<double>(shape, numbers), dtype);
  return {name, dtype, shape, false, [tensor] { return tensor; }};
}

} // namespace mha::test
