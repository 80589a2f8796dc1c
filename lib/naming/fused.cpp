#include <mha/naming/fused.hpp>

#include <mha/tensor/parts.hpp>

#include <vector>

namespace mha {

namespace {

/// The place of each head of q, k and v among the heads of the fused matrix, which are `d` columns
/// each.
struct FusedHeads {
  std::vector<std::size_t> q, k, v;
};

FusedHeads fused_heads(QkvOrder order, std::size_t H, std::size_t H_kv) {
  FusedHeads heads;
  std::size_t next = 0;
  const auto append = [&](std::vector<std::size_t>& list, std::size_t n) {
    for (std::size_t i = 0; i < n; ++i) list.push_back(next++);
  };
  switch (order) {
  case QkvOrder::qkv:
    append(heads.q, H), append(heads.k, H_kv), append(heads.v, H_kv);
    break;
  case QkvOrder::qvk:
    append(heads.q, H), append(heads.v, H_kv), append(heads.k, H_kv);
    break;
  case QkvOrder::kqv:
    append(heads.k, H_kv), append(heads.q, H), append(heads.v, H_kv);
    break;
  case QkvOrder::kvq:
    append(heads.k, H_kv), append(heads.v, H_kv), append(heads.q, H);
    break;
  case QkvOrder::vqk:
    append(heads.v, H_kv), append(heads.q, H), append(heads.k, H_kv);
    break;
  case QkvOrder::vkq:
    append(heads.v, H_kv), append(heads.k, H_kv), append(heads.q, H);
    break;
  case QkvOrder::per_group: // GPT-NeoX and BLOOM where H = H_kv, Falcon's new layout where not
    for (std::size_t g = 0; g < H_kv; ++g)
      append(heads.q, H / H_kv), append(heads.k, 1), append(heads.v, 1);
    break;
  }
  return heads;
}

} // namespace

SplitTensors split_fused(const Tensor& fused, QkvOrder order, std::size_t H, std::size_t H_kv,
                         const std::string& where) {
  if (fused.rank() == 0) fail("{} is one number: queries, keys and values expected", where);
  const std::size_t cols = fused.shape().back(), all = H + 2 * H_kv;
  if (H == 0 || cols == 0 || cols % all != 0)
    fail("{} is {}: {} columns do not split into {} query and 2 × {} key and value heads; give "
         "<num_heads> and "
         "<num_kv_heads>",
         where, to_string(fused.shape()), cols, H, H_kv);
  const std::size_t d = cols / all, rows = fused.count() / cols;
  const FusedHeads from = fused_heads(order, H, H_kv);
  const auto gather = [&](const std::vector<std::size_t>& heads) {
    const bool side_by_side = heads.back() - heads.front() + 1 == heads.size();
    if (fused.rank() == 2 && side_by_side)
      return columns_when_read(fused, heads.front() * d, heads.size() * d);
    Shape shape = fused.shape();
    shape.back() = heads.size() * d;
    return at_positions(fused.reshaped({rows, all, d}), 1, heads).reshaped(shape);
  };
  return {gather(from.q), gather(from.k), gather(from.v)};
}

} // namespace mha
