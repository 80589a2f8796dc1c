#pragma once
// The time of a computation's stages, compared with the least time that this machine needs for
// them.

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
  double seconds = 0; ///< of a run: the time of all workers divided by the number of threads
  Work work;
  double kept_bytes = 0;
  double bound_s = 0;   ///< see bound_of(); 0 for a stage without work
  std::string bound_by; ///< "multiply-adds", "exponentials", "reading from L3" …: the largest part
  /// The share of the bound that was reached.
  double reached() const { return bound_s / seconds; }
};

/// The least seconds that a machine needs for some work, and the largest part of them. Products run
/// at the rate of multiply-adds, an exponential counts as eleven multiply-adds of the vector unit,
/// and reading is bound by the bandwidth of the memory that holds the bytes; the longer of
/// computing and reading counts. Kept stages are written in addition, at the bandwidth of a copy.
std::pair<double, std::string> bound_of(const Work& work, double kept_bytes, MemoryLevel read_from,
                                        MemoryLevel kept_in, const MachineRates& rates);

/// The stages that took any time, in the order of the stage table.
std::vector<StageSpeed> timed_stages(const StageSeconds& of_a_thread, const StageWork& work);

struct Roofline {
  std::vector<StageSpeed> stages;
  double bound_s = 0; ///< of all stages together
  MachineRates machine;
};

/// Measures the machine's rates that the stages need, and compares the stages with them. Called by
/// all ranks together, whose rates are added.
template <class T>
Roofline roofline(Machine<T>& machine, std::vector<StageSpeed> stages, Ranks& ranks);

} // namespace mha
