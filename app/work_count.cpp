#include "work_count.hpp"

#include <mha/model/run.hpp>
#include <mha/observe/trace.hpp>

#include <fmt/format.h>

namespace mha::app {

std::string passes_of(const WorkCount& work, const OpenedModel& model, std::size_t threads) {
  const double operations = work.operations();
  const Uncounted unit(model.sources());
  const WorkCount one;
  const TextLayers layers(model.sources(), model.texts());
  Advance way;
  way.threads = threads;
  const Layer ends = layers.ends(advance(layers, layers.embedded(), layers.count(), way).x);
  if (ends.ends->has(Stage::logits)) trace(ends, {Stage::logits}, {}, threads);
  return fmt::format(", \"operations\": {:.6g}, \"passes\": {:.2f}", operations,
                     operations / one.operations());
}

} // namespace mha::app
