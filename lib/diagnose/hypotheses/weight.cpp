// Weights read in another layout: (out, in) for (in, out), or another order of the fused columns.

#include <mha/diagnose/hypotheses/edit.hpp>
#include <mha/diagnose/hypotheses/themes.hpp>
#include <mha/naming/fused.hpp>

#include <utility>

namespace mha {

namespace {

struct Projection {
  char letter;
  Stage stage;
  Tensor Layer::*W;
};

/// The order in which fused columns are stored, and the one in which they are read.
struct ColumnOrders {
  QkvOrder stored, read;
};

/// Joins q, k and v in the order `stored` and splits them in the order `read`.
SplitTensors reread(const SplitTensors& split, ColumnOrders orders, std::size_t H,
                    std::size_t H_kv) {
  const std::size_t q_cols = split.q.shape().back(), kv_cols = split.k.shape().back(),
                    cols = q_cols + 2 * kv_cols, rows = split.q.count() / q_cols;
  // The place of each column: the columns' numbers, split.
  Tensor numbers(DType::f64, {cols});
  for (std::size_t i = 0; i < cols; ++i) numbers.as_mutable<double>()[i] = static_cast<double>(i);
  const SplitTensors at = split_fused(numbers, orders.stored, H, H_kv, "W_qkv");
  Shape shape = split.q.shape();
  shape.back() = cols;
  Tensor fused = Tensor::uninitialised(split.q.dtype(), shape);
  const auto place = [&](const Tensor& part, const Tensor& places) {
    const auto numbers_of = places.as<double>();
    const std::vector<std::size_t> columns(numbers_of.begin(), numbers_of.end());
    by_precision(fused.dtype(), [&]<class T>(T) {
      T* to = fused.as_mutable<T>().data();
      const T* from = part.as<T>().data();
      for (std::size_t row = 0; row < rows; ++row, from += columns.size(), to += cols)
        for (std::size_t i = 0; i < columns.size(); ++i) to[columns[i]] = from[i];
    });
  };
  place(split.q, at.q), place(split.k, at.k), place(split.v, at.v);
  return split_fused(fused, orders.read, H, H_kv, "W_qkv");
}

void reread(Layer& layer, ColumnOrders orders) {
  const auto apply = [&](Tensor& q, Tensor& k, Tensor& v) {
    SplitTensors split = reread({q, k, v}, orders, layer.dims.H, layer.dims.H_kv);
    q = split.q, k = split.k, v = split.v;
  };
  apply(layer.W_q, layer.W_k, layer.W_v);
  if (layer.b_q.empty() && layer.b_k.empty() && layer.b_v.empty()) return;
  const auto fill = [&](Tensor& bias, const Tensor& W) {
    if (bias.empty()) bias = Tensor(W.dtype(), {W.shape()[1]});
  };
  fill(layer.b_q, layer.W_q), fill(layer.b_k, layer.W_k), fill(layer.b_v, layer.W_v);
  apply(layer.b_q, layer.b_k, layer.b_v);
}

void add_orders(const Subject& subject, ChangeList& list) {
  const Layer& layer = subject.layer;
  const Dims& dims = layer.dims;
  const bool one_matrix = !layer.W_q.empty() && !layer.W_k.empty() && !layer.W_v.empty() &&
                          layer.X_k.empty() && layer.X_v.empty() && dims.d_k == dims.d_v;
  if (!one_matrix) return;
  const QkvOrder stored = subject.fused ? layer.settings.qkv_order : QkvOrder::qkv;
  const auto add = [&](const char* id, ColumnOrders orders, std::string did, std::string cure,
                       Edits settings) {
    if (orders.stored == orders.read) return;
    list.add(
        id, StageSet{Stage::q, Stage::k, Stage::v}, std::move(did), std::move(cure),
        [orders](Layer& edited) { reread(edited, orders); },
        subject.fused ? std::move(settings) : Edits{});
  };
  const auto in_order = [&](const char* id, QkvOrder read, const char* order, const char* word) {
    add(id, {stored, read}, fmt::format("reads the fused weight's columns as {}", order),
        "split the fused weight in its stored order", {{"qkv_order", word}});
  };
  in_order("weight.order.QVK", QkvOrder::qvk, "Q, V, K", "qvk");
  in_order("weight.order.KQV", QkvOrder::kqv, "K, Q, V", "kqv");
  in_order("weight.order.KVQ", QkvOrder::kvq, "K, V, Q", "kvq");
  in_order("weight.order.VQK", QkvOrder::vqk, "V, Q, K", "vqk");
  in_order("weight.order.VKQ", QkvOrder::vkq, "V, K, Q", "vkq");
  const bool grouped = dims.H != dims.H_kv;
  const char* const by = grouped ? "weight.order.per_group" : "weight.order.per_head";
  const char* const each =
      grouped ? "each group's queries, key and value" : "each head's query, key and value";
  add(by, {stored, QkvOrder::per_group},
      fmt::format("reads the fused weight as {}, one after the other", each),
      "split the fused weight into all queries, all keys, all values",
      {{"qkv_order", "per_group"}});
  if (stored == QkvOrder::qkv)
    add(by, {QkvOrder::per_group, QkvOrder::qkv},
        fmt::format("reads a fused weight that holds {} as all queries, all keys, all values",
                    each),
        fmt::format("split the fused weight into {}", each), {});
  else
    add(by, {stored, QkvOrder::qkv}, "reads the fused weight as all queries, all keys, all values",
        "split the fused weight in its stored order", {{"qkv_order", "qkv"}});
}

std::vector<Change> weight_changes(const Subject& subject) {
  ChangeList list;
  for (const Projection& p :
       {Projection{'q', Stage::q, &Layer::W_q}, Projection{'k', Stage::k, &Layer::W_k},
        Projection{'v', Stage::v, &Layer::W_v}, Projection{'o', Stage::output, &Layer::W_o}}) {
    const Tensor& W = subject.layer.*p.W;
    if (W.empty() || W.shape()[0] == 1 || W.shape()[1] == 1) continue;
    StageSet touched{p.stage};
    if (p.stage == Stage::output) touched.add(Stage::head_result);
    Change& change =
        list.add(fmt::format("weight.transposed.{}", p.letter), touched,
                 fmt::format("reads W_{} transposed", p.letter),
                 fmt::format("transpose W_{0}: it is (in, out) = ({1}, {2}), applied as x W_{0}",
                             p.letter, W.shape()[0], W.shape()[1]),
                 [W = p.W](Layer& edited) {
                   if (!(edited.*W).empty()) edited.*W = read_transposed(edited.*W);
                 });
    if (W.shape()[0] == W.shape()[1] && !subject.fused)
      change.reproduction.add(TensorEdit{.name = fmt::format("W_{}", p.letter), .axes = "OI"});
  }
  add_orders(subject, list);
  return list.take();
}

} // namespace

const Theme weight_theme{
    "weight",
    "weight.transposed.q weight.transposed.k weight.transposed.v weight.transposed.o "
    "weight.order.QVK weight.order.KQV weight.order.KVQ weight.order.VQK weight.order.VKQ "
    "weight.order.per_head weight.order.per_group",
    weight_changes};

} // namespace mha
