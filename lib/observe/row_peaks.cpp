#include <mha/observe/row_peaks.hpp>

#include <mha/tensor/precision.hpp>

#include <algorithm>
#include <cmath>
#include <limits>

namespace mha {

namespace {

/// The place of a block's head among the chosen ones; their number if it is none of them.
std::size_t place_of(const Slice& block, const std::vector<std::size_t>& heads) {
  return static_cast<std::size_t>(std::find(heads.begin(), heads.end(), block.head) -
                                  heads.begin());
}

} // namespace

RowPeaks::RowPeaks(const Layer& layer, std::vector<std::size_t> heads, std::size_t batch,
                   std::size_t kept)
    : numbers_(std::move(heads)),
      batch_(batch),
      kept_(std::min(kept, layer.dims.S_all)),
      T_(layer.dims.T),
      S_(layer.dims.S_all),
      heads_(numbers_.size()) {
  for (Head& head : heads_) {
    head.keys.resize(T_ * kept_);
    head.weights.resize(T_ * kept_);
  }
}

void RowPeaks::observe(const Slice& block) {
  const std::size_t place = place_of(block, numbers_);
  if (block.batch != batch_ || place == numbers_.size()) return;
  by_precision(block.values.dtype, [&]<class T>(T) { observe_as<T>(block, heads_[place]); });
}

template <class T> void RowPeaks::observe_as(const Slice& block, Head& head) {
  struct Peak {
    T weight;
    std::uint32_t key;
  };
  // NaN comes first, so that it is always shown.
  const auto rank = [](T weight) {
    return std::isnan(weight) ? std::numeric_limits<T>::infinity() : weight;
  };
  const auto before = [&](const Peak& a, const Peak& b) {
    return rank(a.weight) != rank(b.weight) ? rank(a.weight) > rank(b.weight) : a.key < b.key;
  };
  std::vector<Peak> peaks;
  for (std::size_t r = 0; r < block.values.shape[1]; ++r) {
    const T* row = block.row<T>(r);
    peaks.clear();
    for (std::size_t k = 0; k < kept_; ++k)
      peaks.push_back({row[k], static_cast<std::uint32_t>(k)});
    std::sort(peaks.begin(), peaks.end(), before);
    for (std::size_t k = kept_; k < S_; ++k) {
      // Most keys are skipped here, but not NaN.
      if (row[k] <= peaks.back().weight || std::isnan(peaks.back().weight)) continue;
      const Peak peak{row[k], static_cast<std::uint32_t>(k)};
      peaks.pop_back();
      peaks.insert(std::upper_bound(peaks.begin(), peaks.end(), peak, before), peak);
    }
    const std::size_t first = (block.token + r) * kept_;
    for (std::size_t i = 0; i < kept_; ++i) {
      head.keys[first + i] = peaks[i].key;
      head.weights[first + i] = static_cast<float>(peaks[i].weight);
    }
  }
}

/// Packs the first `count` of each row.
std::string RowPeaks::packed(const Head& head, std::size_t count) const {
  std::vector<std::uint32_t> keys;
  std::vector<float> weights;
  for (std::size_t t = 0; t < T_; ++t) {
    const std::size_t first = t * kept_;
    keys.insert(keys.end(), &head.keys[first], &head.keys[first] + count);
    weights.insert(weights.end(), &head.weights[first], &head.weights[first] + count);
  }
  std::string bytes;
  append_planes(bytes, keys.data(), keys.size(), sizeof(std::uint32_t));
  append_planes(bytes, weights.data(), weights.size(), sizeof(float));
  return deflated(bytes);
}

std::optional<PackedStage> RowPeaks::largest(std::size_t limit) const {
  if (heads_.empty()) return std::nullopt;
  // Heads pack about equally well, so that the first shows where to begin.
  std::size_t count = kept_;
  const std::size_t whole = packed(heads_[0], kept_).size() * heads_.size();
  if (whole > limit) count = kept_ * limit / whole;
  while (count > 0) {
    PackedStage stage{RowForm::largest, T_, S_, count, 1, 1, {}};
    std::size_t bytes = 0;
    for (const Head& head : heads_) {
      stage.heads.push_back(packed(head, count));
      bytes += stage.heads.back().size();
    }
    if (bytes <= limit) return stage;
    count = std::min(count - 1, count * limit / bytes);
  }
  return std::nullopt;
}

} // namespace mha
