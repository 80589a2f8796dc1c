#pragma once
// The largest weights of each row, for maps that do not fit.

#include <mha/layer/select.hpp>
#include <mha/observe/compute.hpp>
#include <mha/observe/packing.hpp>

#include <optional>

namespace mha {

/// The largest weights of each query and head, and their keys.
class RowPeaks : public Observer {
public:
  RowPeaks(const Layer& layer, std::vector<std::size_t> heads, std::size_t batch, std::size_t kept);

  StageSet wants() const override { return StageSet{Stage::weights}; }
  void observe(const Slice& block) override;

  /// As many of each row as fit into `limit` bytes, packed; nothing if not even one of each fits.
  std::optional<PackedStage> largest(std::size_t limit) const;

private:
  struct Head {
    std::vector<std::uint32_t> keys; ///< T × kept
    std::vector<float> weights;
  };
  template <class T> void observe_as(const Slice& block, Head& head);
  std::string packed(const Head& head, std::size_t count) const;

  std::vector<std::size_t> numbers_;
  std::size_t batch_, kept_, T_, S_;
  std::vector<Head> heads_;
};

} // namespace mha
