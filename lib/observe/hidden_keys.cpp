#include <mha/observe/hidden_keys.hpp>

#include <mha/forward/mask.hpp>
#include <mha/tensor/precision.hpp>

#include <algorithm>

namespace mha {

HiddenKeys::HiddenKeys(const Layer& layer, std::vector<std::size_t> heads, std::size_t batch,
                       std::size_t most_bytes)
    : layer_(layer),
      numbers_(std::move(heads)),
      batch_(batch),
      runs_(numbers_.size(), std::vector<KeyRange>(layer.dims.T)) {
  const std::size_t row_bytes = (layer.dims.S_all + 7) / 8;
  if (row_bytes * layer.dims.T * numbers_.size() > most_bytes) return;
  row_bytes_ = row_bytes;
  bits_.assign(numbers_.size(), std::string(row_bytes * layer.dims.T, '\0'));
}

void HiddenKeys::observe(const Slice& block) {
  const auto found = std::find(numbers_.begin(), numbers_.end(), block.head);
  if (block.batch != batch_ || found == numbers_.end()) return;
  const auto place = static_cast<std::size_t>(found - numbers_.begin());
  for (std::size_t r = 0; r < block.values.shape[1]; ++r)
    by_precision(block.values.dtype, [&]<class T>(T) { scan<T>(block, place, r); });
}

template <class T> void HiddenKeys::scan(const Slice& block, std::size_t place, std::size_t row) {
  const std::size_t keys = layer_.dims.S_all, query = block.token + row;
  const T* weights = block.row<T>(row);
  std::vector<T> mask(keys);
  mask_row(layer_, {block.batch, block.head, query}, mask.data());
  std::size_t seen = 0, first = keys, end = 0;
  for (std::size_t k = 0; k < keys; ++k) {
    if (is_hidden(mask[k], weights[k])) {
      if (row_bytes_ > 0) {
        char& byte = bits_[place][query * row_bytes_ + k / 8];
        byte = static_cast<char>(byte | 1 << k % 8);
      }
      continue;
    }
    ++seen, first = std::min(first, k), end = k + 1;
  }
  if (seen < keys) any_ = true;
  if (seen == 0) first = 0;
  if (seen != end - first) gaps_ = true;
  runs_[place][query] = {static_cast<std::uint32_t>(first), static_cast<std::uint32_t>(end)};
}

std::vector<HiddenKeys::KeyRange> HiddenKeys::runs() const {
  const auto differs = [&](const std::vector<KeyRange>& head) { return head != runs_[0]; };
  if (gaps_ || runs_.empty() || std::any_of(runs_.begin(), runs_.end(), differs)) return {};
  return runs_[0];
}

std::optional<PackedStage> HiddenKeys::bits() const {
  if (row_bytes_ == 0) return std::nullopt;
  PackedStage stage{RowForm::bits, layer_.dims.T, layer_.dims.S_all, 0, 1, 1, {}};
  for (const std::string& head : bits_) stage.heads.push_back(deflated(head));
  return stage;
}

} // namespace mha
