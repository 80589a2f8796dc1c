#include "work_count.hpp"

#include <mha/model/run.hpp>
#include <mha/observe/trace.hpp>

#include <fmt/format.h>

namespace mha::app {

MoreTimings passes_of(const WorkCount& work, const OpenedModel& model, std::size_t threads) {
  const double operations = work.operations();
  const Uncounted unit(model.sources());
  const WorkCount one;
  const std::shared_ptr<const TextLayers> made = model.text_layers();
  const TextLayers& layers = *made;
  Advance way;
  way.threads = threads;
  const Layer ends = layers.ends(advance(layers, layers.embedded(), layers.count(), way).x);
  if (ends.ends->has(Stage::logits)) trace(ends, {Stage::logits}, {}, threads);
  return [operations, passes = operations / one.operations()](render::JsonText& json) {
    json.key("operations").as_it_is(fmt::format("{:.6g}", operations));
    add_fixed(json, "passes", passes, 2);
  };
}

} // namespace mha::app
