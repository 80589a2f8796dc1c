#include <mha/layer/layer_pass.hpp>

#include <mha/layer/members.hpp>
#include <mha/system/one_of.hpp>
#include <mha/tensor/sparse.hpp>

#include <algorithm>
#include <cstring>
#include <limits>

namespace mha {

namespace {

/// Which memory a tensor has. Its numbers are not read: those of a weight may not be there yet.
const void* memory_of(const Tensor& tensor) {
  if (tensor.empty()) return nullptr;
  return tensor.stored() ? static_cast<const void*>(tensor.stored()) : tensor.raw();
}

constexpr std::size_t not_begun = std::numeric_limits<std::size_t>::max();

} // namespace

LayerPass::LayerPass(const Layer& layer, std::shared_ptr<LayerCounts> counts, bool hands_on)
    : known_{identity_of(layer)},
      dims_(layer.dims),
      counts_(std::move(counts)),
      hands_on_(hands_on && layer.dims.T > 0),
      rows_missing_(hands_on_ ? layer.dims.B : 0) {
  for (std::size_t b = 0; b < layer.dims.B; ++b) lengths_.push_back(layer.length_of(b));
  for (auto& rows : rows_missing_) rows = not_begun;
  if (!hands_on_) return;
  layer_ = layer;
  layer_->pass = nullptr;
}

LayerPass::LayerPass(std::shared_ptr<LayerPass> whole, const Layer& item)
    : whole_(std::move(whole)),
      first_item_(item.first_item),
      known_{identity_of(item)},
      dims_(item.dims),
      hands_on_(false) {}

/// Items of an item's pass, as the whole layer numbers them.
std::vector<std::size_t> LayerPass::of_whole(std::vector<std::size_t> items) const {
  for (std::size_t& item : items) item += first_item_;
  return items;
}

LayerPass::Identity LayerPass::identity_of(const Layer& layer) {
  Identity identity;
  identity.dims = layer.dims, identity.given = layer.given_set;
  for (const SettingInfo& info : settings_table())
    if (info.name != "columns") // says how results are written
      identity.settings += info.get(layer.settings) + " ";
  each_part_of_layer(layer, [&](std::string_view, const auto& part) {
    using Member = std::remove_cvref_t<decltype(part)>;
    if constexpr (std::is_same_v<Member, Tensor>)
      identity.tensors.push_back(memory_of(part));
    else if constexpr (std::is_same_v<Member, std::vector<std::size_t>>)
      identity.numbers.insert(identity.numbers.end(), part.begin(), part.end());
    else if constexpr (std::is_same_v<Member, std::vector<Broadcast>>)
      for (const Broadcast& mask : part) {
        identity.tensors.push_back(memory_of(mask.tensor));
        identity.numbers.insert(identity.numbers.end(), mask.strides.begin(), mask.strides.end());
        identity.numbers.insert(identity.numbers.end(), {mask.first_key, mask.keys});
      }
    else if constexpr (std::is_same_v<Member, Patches>)
      for (const StagePatch& patch : part.list) identity.tensors.push_back(patch.is_read.get());
    else if constexpr (requires { part.use_count(); })
      identity.tensors.push_back(part.get());
  });
  for (const Tensor& given : layer.given) identity.tensors.push_back(memory_of(given));
  return identity;
}

bool LayerPass::is_of(const Layer& layer) const {
  const Identity identity = identity_of(layer);
  const std::lock_guard hold(lock_);
  return is_one_of(identity, known_);
}

void LayerPass::admit(const Layer& first_tokens) {
  const Identity identity = identity_of(first_tokens);
  const std::lock_guard hold(lock_);
  add_once(known_, identity);
}

bool LayerPass::computes_whole(const Layer& layer, std::size_t item) const {
  return lengths_[item] <= layer.dims.T;
}

bool LayerPass::needs(const Layer& layer, const std::vector<std::size_t>& items) const {
  if (whole_) return whole_->needs(layer, of_whole(items));
  return hands_on_ && std::ranges::any_of(items, [&](std::size_t item) {
           return rows_missing_[item] != 0 && computes_whole(layer, item);
         });
}

void LayerPass::begin(const Layer& layer, const std::vector<std::size_t>& items) {
  if (whole_) return whole_->begin(layer, of_whole(items));
  // Zeros, which padding keeps, and what no row is computed of.
  if (resid_post_.empty()) {
    const Shape shape{lengths_.size(), layer_->dims.T, layer_->dims.d_out};
    resid_post_ =
        layer_->lengths.empty() ? Tensor(layer.dtype, shape) : sparse_zeros(layer.dtype, shape);
  }
  for (const std::size_t item : items)
    if (computes_whole(layer, item)) rows_missing_[item] = lengths_[item];
  // A computation lets go of tensors that it no longer reads: not kept here, they are gone then.
  if (std::ranges::none_of(rows_missing_, [](const auto& rows) { return rows == not_begun; }))
    layer_.reset();
}

void LayerPass::take(std::size_t item, std::size_t token, const ArrayView& rows) {
  if (whole_) return whole_->take(first_item_ + item, token, rows);
  if (rows_missing_[item] == not_begun || rows_missing_[item] == 0) return;
  const std::size_t element = size_of(resid_post_.dtype()), T = resid_post_.shape()[1];
  const std::size_t bytes = resid_post_.shape()[2] * element;
  const std::size_t stride = static_cast<std::size_t>(rows.strides[0]) * element;
  std::byte* const to = resid_post_.raw_mutable() + (item * T + token) * bytes;
  for (std::size_t t = 0; t < rows.shape[0]; ++t)
    std::memcpy(to + t * bytes, rows.data + t * stride, bytes);
  rows_missing_[item] -= rows.shape[0];
}

std::vector<std::size_t> LayerPass::missing() const {
  std::vector<std::size_t> items;
  for (std::size_t b = 0; b < rows_missing_.size(); ++b)
    if (rows_missing_[b] != 0) items.push_back(b);
  return items;
}

void LayerPass::count(const StageSet& computed, std::size_t blocks, std::size_t queries) {
  if (whole_) return whole_->count(computed, blocks, queries);
  const std::size_t of =
      dims_.B * std::max<std::size_t>(dims_.H, 1) * ((dims_.T + queries - 1) / queries);
  if (of == 0) return;
  const std::lock_guard hold(lock_);
  std::size_t most = 0;
  for (const Stage stage : computed) most = std::max(most, blocks_done_[index_of(stage)] += blocks);
  const std::size_t times = std::max(times_, (most + of - 1) / of);
  counts_->computed += times - times_;
  times_ = times;
}

} // namespace mha
