#include "observe/row_peaks.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace mha {

namespace {

/// The place of a block's head among the chosen ones; their number if it is none of them.
std::size_t place_of(const Block& block, const std::vector<std::size_t>& heads) {
  return static_cast<std::size_t>(std::find(heads.begin(), heads.end(), block.head) -
                                  heads.begin());
}

/// Row r of a block of a map (1, n, S); keys lie beside each other.
template <class T> const T* row_of(const Block& block, std::size_t r) {
  return reinterpret_cast<const T*>(block.values.data) +
         static_cast<std::ptrdiff_t>(r) * block.values.strides[1];
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

void RowPeaks::observe(const Block& block) {
  const std::size_t place = place_of(block, numbers_);
  if (block.batch != batch_ || place == numbers_.size()) return;
  if (block.values.dtype == DType::f64)
    observe_as<double>(block, heads_[place]);
  else
    observe_as<float>(block, heads_[place]);
}

template <class T> void RowPeaks::observe_as(const Block& block, Head& head) {
  std::vector<std::uint32_t> order(S_);
  for (std::size_t r = 0; r < block.values.shape[1]; ++r) {
    const T* row = row_of<T>(block, r);
    const std::size_t query = block.token + r;
    std::iota(order.begin(), order.end(), 0U);
    const auto rank = [&](std::uint32_t key) { // NaN before everything: it is what one must see
      return std::isnan(row[key]) ? std::numeric_limits<T>::infinity() : row[key];
    };
    const auto end = order.begin() + static_cast<std::ptrdiff_t>(kept_);
    std::partial_sort(order.begin(), end, order.end(), [&](std::uint32_t a, std::uint32_t b) {
      return rank(a) != rank(b) ? rank(a) > rank(b) : a < b;
    });
    for (std::size_t i = 0; i < kept_; ++i) {
      head.keys[query * kept_ + i] = order[i];
      head.weights[query * kept_ + i] = static_cast<float>(row[order[i]]);
    }
  }
}

PackedStage RowPeaks::largest() const {
  PackedStage packed{RowForm::largest, T_, S_, kept_, 1, 1, {}};
  for (const Head& head : heads_) {
    std::string bytes;
    append_planes(bytes, head.keys.data(), head.keys.size(), sizeof(std::uint32_t));
    append_planes(bytes, head.weights.data(), head.weights.size(), sizeof(float));
    packed.heads.push_back(deflated(bytes));
  }
  return packed;
}

VisibleKeys::VisibleKeys(const Layer& layer, std::vector<std::size_t> heads, std::size_t batch)
    : numbers_(std::move(heads)),
      batch_(batch),
      heads_(numbers_.size(), std::vector<Run>(layer.dims.T)) {}

void VisibleKeys::observe(const Block& block) {
  const std::size_t place = place_of(block, numbers_);
  if (block.batch != batch_ || place == numbers_.size()) return;
  const std::size_t keys = block.values.shape[2];
  const auto scan = [&](const auto* row) {
    Run run;
    std::uint32_t visible = 0;
    for (std::uint32_t k = 0; k < keys; ++k)
      if (!(std::isinf(row[k]) && row[k] < 0)) {
        if (visible++ == 0) run.first = k;
        run.end = k + 1;
      }
    if (visible != run.end - run.first) gaps_ = true;
    return run;
  };
  for (std::size_t r = 0; r < block.values.shape[1]; ++r)
    heads_[place][block.token + r] = block.values.dtype == DType::f64
                                         ? scan(row_of<double>(block, r))
                                         : scan(row_of<float>(block, r));
}

std::vector<VisibleKeys::Run> VisibleKeys::runs() const {
  if (gaps_ || heads_.empty()) return {};
  for (const std::vector<Run>& head : heads_)
    for (std::size_t t = 0; t < head.size(); ++t)
      if (head[t].first != heads_[0][t].first || head[t].end != heads_[0][t].end) return {};
  return heads_[0];
}

} // namespace mha
