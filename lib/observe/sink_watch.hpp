#pragma once
// Share of the weight on the first key, the sink of heads that look for nothing.

#include <mha/observe/mergeable.hpp>

#include <atomic>
#include <cstdint>
#include <optional>

namespace mha {

/// Watches weights: the share of all rows but query 0's that is on key 0.
class SinkWatch : public Mergeable {
public:
  StageSet wants() const override { return StageSet{Stage::weights}; }
  void observe(const Slice& block) override;
  void share(const Layer& layer, const Plan& part, ShareBytes& bytes) override;

  /// Nothing where no map has `least` rows: short texts have no sink, however many they are.
  std::optional<double> share(std::size_t least = 16) const;

private:
  /// In units of 2⁻³², so that the sum is the same in any order.
  std::atomic<std::uint64_t> sum_{0}, rows_{0};
  std::atomic<std::uint64_t> longest_{0}; ///< rows of a map
};

} // namespace mha
