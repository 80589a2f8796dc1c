#pragma once
// Bounds of the machine on as many threads as a layer is computed on: the roofs of the roofline.

#include <array>
#include <cstddef>
#include <string>
#include <vector>

namespace mha {

/// The memory that holds an array that is read repeatedly: the second cache of each core, the
/// third, which cores share, or main memory.
enum class MemoryLevel { cache_2, cache_3, memory };
inline constexpr std::size_t memory_levels = 3;
/// "L2", "L3", "memory".
const char* name_of(MemoryLevel level);

/// Bytes a second; 0 if not measured.
struct Bandwidth {
  double read = 0; ///< of a plain read
  double copy = 0; ///< bytes written by a plain copy, which also reads as many
};

/// Rates of all threads together, the best of several measurements.
struct MachineRates {
  double products = 0; ///< operations a second of multiply-adds in registers, by the unit in use
  double vectors = 0;  ///< the same of the vector unit, which computes all but products
  double exponentials = 0; ///< of rows in the first cache, by the kernel in use
  std::array<Bandwidth, memory_levels> bytes{}; ///< by MemoryLevel
  std::string unit; ///< the unit for products: "avx512", "amx, bfloat16 × 3" …

  const Bandwidth& of(MemoryLevel level) const { return bytes[static_cast<std::size_t>(level)]; }
};

/// Measures a machine for layers computed in T on `threads` threads.
template <class T> class Machine {
public:
  /// Uses at most as many threads as cores.
  explicit Machine(std::size_t threads);

  /// Measures multiply-adds for 16 ms. Call it between the runs of the layer that is compared with
  /// the rate, because clocks and other processes change within minutes.
  void measure_products();
  /// Measures exponentials, the vector unit, and the bandwidth of the levels that hold arrays of
  /// `sizes` bytes.
  void measure_rest(const std::vector<double>& sizes);
  /// The level that holds an array of `bytes` bytes which all threads read together.
  MemoryLevel level_of(double bytes) const;
  const MachineRates& rates() const { return rates_; }

private:
  /// The rate of all threads' work: `step(worker)` returns the work of one call.
  template <class Step> double rate_of(const Step& step) const;
  double bytes_in(MemoryLevel level) const;
  void measure(MemoryLevel level);

  std::size_t threads_;
  MachineRates rates_;
};

} // namespace mha
