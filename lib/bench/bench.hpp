#pragma once
// Times of a layer's computation in memory and of a whole model's pass, from token numbers to the
// logits of the last token, compared with the machine's bounds.

#include <mha/bench/roofline.hpp>
#include <mha/model/opened_model.hpp>
#include <mha/ranks/ranks.hpp>

#include <optional>
#include <string>
#include <vector>

namespace mha {

/// The time of a phase, or of all phases.
struct PhaseSpeed {
  double median_s = 0, best_s = 0;
  double operations = 0;

  /// Operations a second.
  double rate() const { return operations == 0 ? 0 : operations / median_s; }
};

/// The measured times. All are from one run of the program, since a machine's speed changes during
/// the day.
struct Speed {
  ByPhase<PhaseSpeed> phases;
  PhaseSpeed all;       ///< the phases, the plan, and allocating the kept stages
  Roofline roofline;    ///< by stage, with the machine's rates on as many threads, measured between
                        ///< the runs and after them
  std::size_t runs = 0; ///< timed runs
  std::size_t computed = 0; ///< all runs
  std::size_t threads = 1;  ///< of all ranks together
  DType dtype = DType::f32;
  std::vector<Stage> kept;

  /// Whether a phase is shown: `around` only for a layer of a whole model.
  bool has(Phase phase) const { return phase != Phase::around || phases[phase].operations > 0; }
};

struct BenchRequest {
  std::vector<Stage> kept;           ///< stages kept in memory, allocated in every run
  std::optional<std::size_t> repeat; ///< timed runs; by default as many as fit into two seconds
  std::size_t threads = 0;           ///< of each rank
  std::optional<std::size_t>
      memory;             ///< bytes of packed weights to keep; by default half of the free memory
  Ranks* ranks = nullptr; ///< the processes that share the work; null: this one alone
};

/// Computes the layer repeatedly, after two runs that are not timed: the second packs the weights,
/// which are kept as in a model that runs more than once. Throws Error if a run gives other bits
/// than the first. Ranks compute a part each and begin together; the slowest decides the time of a
/// phase.
Speed bench(const Layer& layer, const BenchRequest& request);

/// One layer of the pass; medians of the runs, in seconds.
struct LayerSeconds {
  std::string layer;
  double read_s = 0; ///< to make the layer's tensors, once before the runs
  ByPhase<double> phases;
};

/// The times of a whole model's pass.
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
