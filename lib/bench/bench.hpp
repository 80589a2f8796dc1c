#pragma once
// Time of a layer's computation in memory, beside the machine's bounds.

#include <mha/bench/roofline.hpp>
#include <mha/ranks/ranks.hpp>

#include <optional>
#include <string>
#include <vector>

namespace mha {

/// The time of a phase, or of all.
struct PhaseSpeed {
  double median_s = 0, best_s = 0;
  double operations = 0;

  /// Operations a second.
  double rate() const { return operations == 0 ? 0 : operations / median_s; }
};

/// What was measured. All of it is in one run of the program: machines are not equally fast all
/// day.
struct Speed {
  ByPhase<PhaseSpeed> phases;
  PhaseSpeed all;       ///< more than the phases: the plan, and the memory of what is kept
  Roofline roofline;    ///< by stage, and the machine's rates: of as many threads, between the runs
                        ///< and after
  std::size_t runs = 0; ///< that are timed
  std::size_t computed = 0; ///< times that the layer was computed in all
  std::size_t threads = 1;  ///< of all ranks together
  DType dtype = DType::f32;
  std::vector<Stage> kept;

  /// Whether a phase is shown: `around` only of a layer of a whole model.
  bool has(Phase phase) const { return phase != Phase::around || phases[phase].operations > 0; }
};

struct BenchRequest {
  std::vector<Stage> kept;           ///< stages kept in memory, anew in every run
  std::optional<std::size_t> repeat; ///< runs that are timed; else as many as fit into two seconds
  std::size_t threads = 0;           ///< of each rank
  std::optional<std::size_t> memory; ///< bytes of packed weights kept; else half of what is free
  Ranks* ranks = nullptr;            ///< the processes that share the work; null: this one alone
};

/// Computes the layer again and again, after two runs that are not timed: the second packs the
/// weights, which are kept as those of a model that runs more than once. Throws Error if a run
/// gives other bits than the first. Ranks compute a part each, beginning together; the time of a
/// phase is that of the slowest.
Speed bench(const Layer& layer, const BenchRequest& request);

} // namespace mha
