#pragma once
// Share of the weight on the first key, the sink of heads without a target.

#include <mha/observe/mergeable.hpp>

#include <atomic>
#include <cstdint>
#include <optional>

namespace mha {

/// Observes weights: the share on key 0 of all rows but query 0's.
class SinkWatch : public Mergeable {
public:
  StageSet wants() const override { return StageSet{Stage::weights}; }
  void observe(const Slice& block) override;
  void share(const Layer& layer, const Plan& part, ShareBytes& bytes) override;

  /// Nothing if no map has `least` rows: short texts have no sink, however many there are.
  std::optional<double> share(std::size_t least = 16) const;

private:
  /// In units of 2⁻³², so that the sum is the same in any order.
  std::atomic<std::uint64_t> sum_{0}, rows_{0};
  std::atomic<std::uint64_t> longest_{0}; ///< rows of a map
};

} // namespace mha
