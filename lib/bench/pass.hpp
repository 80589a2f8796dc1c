#pragma once
// Time of a whole model's pass: from token numbers to the logits of the last token.

#include <mha/bench/roofline.hpp>
#include <mha/model/opened_model.hpp>

#include <optional>
#include <string>
#include <vector>

namespace mha {

/// One layer of the pass; medians of the runs, in seconds.
struct LayerSeconds {
  std::string layer;
  double read_s = 0; ///< to make the layer's tensors, once before the runs
  ByPhase<double> phases;
};

struct PassSpeed {
  double median_s = 0, best_s = 0;
  std::size_t runs = 0;
  std::size_t tokens = 0; ///< of all texts, without padding
  std::vector<LayerSeconds> layers;
  double logits_s = 0; ///< last norm and logits of each text's last token; 0 without a head
  Roofline roofline;   ///< of all layers together, and of the logits

  double tokens_per_second() const { return static_cast<double>(tokens) / median_s; }
};

/// Runs the whole pass on layers that are made once, after one pass that is not timed: as many
/// times as fit into two seconds and at least five, or `repeat` times. Throws Error if a run gives
/// other bits than the first.
PassSpeed bench_pass(const OpenedModel& model, std::optional<std::size_t> repeat);

} // namespace mha
