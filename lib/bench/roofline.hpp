#pragma once
// The stages of a computation beside the least that they can take on this machine.

#include <mha/bench/machine.hpp>
#include <mha/bench/work.hpp>
#include <mha/ranks/ranks.hpp>
#include <mha/schedule/times.hpp>

#include <string>
#include <utility>
#include <vector>

namespace mha {

struct StageSpeed {
  Stage stage{};
  double seconds = 0; ///< of a run, on average, of one thread: all workers' together by threads
  Work work;
  double kept_bytes = 0;
  double bound_s = 0;   ///< of the work, 0 for a stage without any: see bound_of()
  std::string bound_by; ///< "multiply-adds", "exponentials", "reading from L3" …: the largest part
  /// The share of the bound that was reached.
  double reached() const { return bound_s / seconds; }
};

/// The seconds that a machine needs for some work at least, and what most of it goes to: products
/// at the rate of multiply-adds, eleven multiply-adds of the vector unit for an exponential, or,
/// where that takes longer, reading at the bandwidth of the place where the bytes lie; what is kept
/// is written beside that, at the bandwidth of a copy.
std::pair<double, std::string> bound_of(const Work& work, double kept_bytes, MemoryLevel read_from,
                                        MemoryLevel kept_in, const MachineRates& rates);

/// The stages that took any time, in the order of the stage table.
std::vector<StageSpeed> timed_stages(const StageSeconds& of_a_thread, const StageWork& work);

struct Roofline {
  std::vector<StageSpeed> stages;
  double bound_s = 0; ///< of all stages together
  MachineRates machine;
};

/// Measures what the stages need of the machine, and holds them against it. Called by all ranks
/// together, whose rates are added up.
template <class T>
Roofline roofline(Machine<T>& machine, std::vector<StageSpeed> stages, Ranks& ranks);

} // namespace mha
