#pragma once
// Bounds of the machine, on as many threads as a layer is computed on: the roofs that its stages
// stand under.

#include <array>
#include <cstddef>
#include <string>
#include <vector>

namespace mha {

/// Where numbers lie that are read again and again: the second cache of each core, the third, which
/// cores share, or memory.
enum class MemoryLevel { cache_2, cache_3, memory };
inline constexpr std::size_t memory_levels = 3;
/// "L2", "L3", "memory".
const char* name_of(MemoryLevel level);

/// Bytes a second; 0 where it was not measured.
struct Bandwidth {
  double read = 0; ///< of a plain read
  double copy = 0; ///< bytes written by a plain copy, each of which is read, too
};

/// Rates of all threads together, the best of several measurements.
struct MachineRates {
  double products = 0; ///< operations a second of multiply-adds in registers, by the unit in use
  double vectors = 0;  ///< the same of the vector unit, which computes what is no product
  double exponentials = 0; ///< of rows in the first cache, by the kernel in use
  std::array<Bandwidth, memory_levels> bytes{}; ///< by MemoryLevel; of the places asked for
  std::string unit; ///< what multiplies: "avx512", "amx, bfloat16 × 3" …

  const Bandwidth& of(MemoryLevel level) const { return bytes[static_cast<std::size_t>(level)]; }
};

/// Measures a machine for layers computed in T on `threads` threads.
template <class T> class Machine {
public:
  /// More threads than cores make nothing faster.
  explicit Machine(std::size_t threads);

  /// Multiply-adds once more, for 16 ms; between the runs of what is held against them, because
  /// clocks and neighbours change by the minute.
  void measure_products();
  /// Exponentials, the vector unit, and the bandwidth of the places where `sizes` bytes lie.
  void measure_rest(const std::vector<double>& sizes);
  /// Where so many bytes lie when all threads read them together.
  MemoryLevel level_of(double bytes) const;
  const MachineRates& rates() const { return rates_; }

private:
  /// The rate of work done by all threads: `step(worker)` returns how much one call does.
  template <class Step> double rate_of(const Step& step) const;
  double bytes_in(MemoryLevel level) const;
  void measure(MemoryLevel level);

  std::size_t threads_;
  MachineRates rates_;
};

} // namespace mha
