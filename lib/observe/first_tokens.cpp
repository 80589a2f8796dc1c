#include <mha/observe/first_tokens.hpp>

#include <mha/layer/names.hpp>

#include <algorithm>

namespace mha {

namespace {

/// The first `count` positions of some axes.
Tensor first_of(const Tensor& tensor, std::initializer_list<std::size_t> axes, std::size_t count) {
  if (tensor.empty()) return tensor;
  ArrayView view = view_of(tensor);
  for (std::size_t axis : axes) view.shape[axis] = std::min(view.shape[axis], count);
  return copy_of(view);
}

/// A given stage as a layer stores it: B, then tokens and packed heads, or the stage's own axes.
Tensor first_of(Stage stage, const Tensor& tensor, std::size_t count) {
  const StageInfo& info = info_of(stage);
  if (info.kind == Kind::map) return first_of(tensor, {2, 3}, count);
  if (info.kind == Kind::row || info.kind == Kind::head_result) return first_of(tensor, {2}, count);
  return first_of(tensor, {1}, count);
}

void keep_first(std::vector<std::string>& labels, std::size_t count) {
  if (labels.size() > count) labels.resize(count);
}

} // namespace

Layer first_tokens(const Layer& layer, std::size_t count) {
  const Dims& dims = layer.dims;
  if (dims.past + dims.extra + dims.zero > 0 || dims.T != dims.S || count >= dims.T) return layer;
  Layer some = layer;
  some.dims.T = some.dims.S = some.dims.S_all = count;
  for (Tensor* rows : {&some.X, &some.X_k, &some.X_v}) *rows = first_of(*rows, {1}, count);
  some.positions = first_of(some.positions, {0}, count);
  for (const StageInfo& info : stages())
    if (layer.has_given(info.stage)) {
      Tensor& given = some.given[index_of(info.stage)];
      given = first_of(info.stage, given, count);
    }
  for (std::vector<Broadcast>* list : {&some.added, &some.blocked, &some.bias})
    for (Broadcast& one : *list) one.keys = std::min(one.keys, count);
  for (std::size_t& length : some.lengths) length = std::min(length, count);
  for (std::size_t& length : some.kv_lengths) length = std::min(length, count);
  keep_first(some.tokens, count), keep_first(some.key_tokens, count);
  for (ItemLabels* items : {&some.item_tokens, &some.item_key_tokens}) {
    std::vector<ItemLabels::List> lists = items->lists();
    for (ItemLabels::List& labels : lists) keep_first(labels, count);
    *items = std::move(lists);
  }
  return some;
}

namespace {

/// Item `batch` of a tensor whose first axis is B, as a batch of one.
Tensor item_of(const Tensor& tensor, std::size_t batch) {
  if (tensor.empty()) return tensor;
  Shape shape = tensor.shape();
  shape[0] = 1;
  return tensor.at(batch).reshaped(std::move(shape));
}

/// What follows from an element on.
Tensor from_element(const Tensor& tensor, std::size_t first) {
  if (first == 0) return tensor;
  return {tensor.dtype(),
          {tensor.count() - first},
          {tensor.share(), tensor.raw() + first * size_of(tensor.dtype())}};
}

template <class List> void keep_item(List& list, std::size_t batch) {
  if (!list.empty()) list = {list[batch]};
}

} // namespace

Layer one_item(const Layer& layer, std::size_t batch) {
  if (!layer.dims.batched) return layer;
  Layer item = layer;
  item.dims.B = 1, item.first_item = layer.first_item + batch;
  for (const TensorInfo& info : layer_tensors())
    if (info.has_batch()) info.of(item) = item_of(info.of(layer), batch);
  for (const StageInfo& info : stages())
    if (layer.has_given(info.stage)) {
      Tensor& given = item.given[index_of(info.stage)];
      given = item_of(given, batch);
    }
  for (std::vector<Broadcast>* list : {&item.added, &item.blocked, &item.bias})
    for (Broadcast& one : *list)
      one.tensor = from_element(one.tensor, batch * std::exchange(one.strides[0], 0));
  for (ResolvedEdit& patch : item.patches.list) {
    if (patch.value.empty()) continue; // of a tensor
    patch.value = from_element(patch.value, batch * std::exchange(patch.strides[0], 0));
    keep_item(patch.tokens, batch);
    if (patch.columns.size() > 1) keep_item(patch.columns, batch);
  }
  keep_item(item.lengths, batch), keep_item(item.kv_lengths, batch);
  item.tokens = layer.tokens_of(batch), item.key_tokens = layer.key_tokens_of(batch);
  item.item_tokens.clear(), item.item_key_tokens.clear();
  return first_tokens(item, item.length_of(0));
}

} // namespace mha
