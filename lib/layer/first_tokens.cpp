#include <mha/layer/first_tokens.hpp>

#include <mha/layer/layer_pass.hpp>

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

/// A given stage as it lies in a layer: B, then tokens and packed heads, or the stage's own axes.
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
  for (auto* items : {&some.item_tokens, &some.item_key_tokens})
    for (std::vector<std::string>& labels : *items) keep_first(labels, count);
  if (layer.pass && layer.pass->is_of(layer)) layer.pass->admit(some);
  return some;
}

Layer without_padding_of(const Layer& layer, std::size_t batch) {
  return first_tokens(layer, layer.length_of(batch));
}

} // namespace mha
