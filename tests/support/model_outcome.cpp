#include "support/model_outcome.hpp"

#include <mha/forward/attention.hpp>
#include <mha/load/load.hpp>
#include <mha/model/pass.hpp>
#include <mha/observe/trace.hpp>

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
    Request request;
    request.in_memory = {model};
    auto pass = std::make_shared<ModelPass>();
    pass->text.ids = {"5,9,31,7,12,40,5,22,18"};
    pass->threads = 1;
    request.inputs = pass;
    const Sources sources(std::move(request));
    const auto keep = [&](const Tensor& tensor) {
      outcome.bits.insert(outcome.bits.end(), tensor.raw(), tensor.raw() + tensor.bytes());
    };
    for (const std::string& id : sources.chosen()) {
      if (id.empty()) continue;
      const LoadedLayer loaded = sources.load(id);
      for (const Note& note : loaded.notes) outcome.notes.insert(note.text);
    }
    const Layer ends = pass->ends_after(sources, pass->layers().size());
    keep(ends.ends->embed), keep(ends.ends->stream);
    for (const Stage stage : {Stage::final, Stage::logits}) {
      if (stage == Stage::final ? !ends.ends->final.present() : !ends.ends->head.present())
        continue;
      Trace trace(ends, {stage});
      compute(ends, make_plan(ends, trace.wants()), trace, 1);
      keep(trace.value(stage));
    }
    for (const Note& note : pass->notes()) outcome.notes.insert(note.text);
    for (const Inputs::OfLayer& layer : pass->take_warnings())
      for (const Note& note : layer.warnings) outcome.notes.insert(note.text);
  } catch (const Error& error) {
    outcome.refusal = error.what();
  }
  return outcome;
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
