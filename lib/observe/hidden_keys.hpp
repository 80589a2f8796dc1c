#pragma once
// Masked cells of a picture or a page: one rule for thumbnails, matrices, PNG, SVG and text.

#include <mha/layer/layer.hpp>
#include <mha/observe/masked_keys.hpp>
#include <mha/observe/packing.hpp>
#include <mha/schedule/observer.hpp>

#include <atomic>
#include <optional>

namespace mha {

/// Whether a weight (or exp) is hidden: the mask blocks its key, and the weight is zero or masked.
/// Fully masked rows may have weights nevertheless (`masked_rows`), and so may given ones.
template <class T> bool is_hidden(T mask, T weight) {
  return is_masked(mask) && (weight == 0 || is_masked(weight));
}

/// The keys of one batch item that are hidden from each query, by the weights.
class HiddenKeys : public Observer {
public:
  /// The keys that a query sees: [first, end).
  struct KeyRange {
    std::uint32_t first = 0, end = 0;
    bool operator==(const KeyRange&) const = default;
  };
  /// Keeps bits if they take at most `most_bytes` unpacked.
  HiddenKeys(const Layer& layer, std::vector<std::size_t> heads, std::size_t batch,
             std::size_t most_bytes);

  StageSet wants() const override { return StageSet{Stage::weights}; }
  void observe(const Slice& block) override;

  /// Whether any key is hidden from any query.
  bool any() const { return any_; }
  /// One run for each query; empty if heads differ or there are gaps.
  std::vector<KeyRange> runs() const;
  /// A bit for each key (RowForm::bits); nothing if these would be too many.
  std::optional<PackedStage> bits() const;

private:
  template <class T> void scan(const Slice& block, std::size_t place, std::size_t row);

  const Layer& layer_;
  std::vector<std::size_t> numbers_;  ///< of the heads
  std::size_t batch_, row_bytes_ = 0; ///< of a row of bits; 0 if no bits are kept
  std::atomic<bool> gaps_{false}, any_{false};
  std::vector<std::vector<KeyRange>> runs_; ///< T each
  std::vector<std::string> bits_;           ///< T rows each
};

} // namespace mha
