#include <mha/load/assemble_steps.hpp>

#include <algorithm>

namespace mha {

namespace {

const NamedTensor* part_of(const NamedTensors& tensors, const char* name) {
  const auto at = tensors.find(name);
  return at == tensors.end() ? nullptr : &at->second;
}

const NamedTensor* matrix_in(const NamedTensors& tensors, const char* name, const char* expected) {
  const NamedTensor* part = part_of(tensors, name);
  if (part && part->tensor.rank() != 2)
    fail("{} is {}: expected {}", part->source, to_string(part->tensor.shape()), expected);
  return part;
}

/// Takes `width` columns from `first` on in every `step`, each followed by `zeros` columns of 0. A
/// vector is one row.
Tensor columns_of(const Tensor& tensor, std::size_t first, std::size_t width, std::size_t step,
                  std::size_t zeros = 0) {
  const std::size_t columns = tensor.shape().back(), runs = columns / step;
  const std::size_t rows = columns == 0 ? 0 : tensor.count() / columns;
  Shape shape = tensor.shape();
  shape.back() = runs * (width + zeros);
  Tensor result(tensor.dtype(), shape); // zeros
  const std::size_t bytes = size_of(tensor.dtype());
  for (std::size_t row = 0; row < rows; ++row)
    for (std::size_t run = 0; run < runs; ++run)
      std::copy_n(tensor.raw() + (row * columns + run * step + first) * bytes, width * bytes,
                  result.raw_mutable() + (row * runs + run) * (width + zeros) * bytes);
  return result;
}

void put(NamedTensors& tensors, const char* name, const NamedTensor& from, Tensor tensor,
         std::string_view what) {
  NamedTensor part = from;
  part.tensor = std::move(tensor);
  part.from = from.origin();
  part.source = fmt::format("{}, its columns of {},", from.origin(), what);
  const auto [at, added] = tensors.emplace(name, std::move(part));
  if (!added)
    fail("{} and {} are both given; leave one of them out", from.source, at->second.source);
}

/// The width of a head's queries and keys.
std::size_t head_width(const NamedTensors& tensors, const Settings& settings, std::size_t heads,
                       std::size_t shared) {
  const NamedTensor* W_q = part_of(tensors, "W_q");
  if (W_q && W_q->tensor.rank() == 3) return W_q->tensor.shape()[2];
  if (W_q && W_q->tensor.rank() == 2 && heads > 0) return W_q->tensor.shape()[1] / heads;
  for (const char* name : {"q", "k"})
    if (const NamedTensor* given = part_of(tensors, name)) return given->tensor.shape().back();
  return settings.rope_first > 0 ? settings.rope_first + shared : 0;
}

} // namespace

void split_latent_weights(NamedTensors& tensors, const Settings& settings, std::size_t heads) {
  matrix_in(tensors, "W_q_a", "(d_model, r_q)");
  const NamedTensor* down = matrix_in(tensors, "W_kv_a", "(d_model, r_kv + d_pe)");
  const NamedTensor* up = matrix_in(tensors, "W_kv_b", "(r_kv, heads · (d_k − d_pe + d_v))");
  for (const char* source : {"X_kv", "X_k", "X_v"})
    if (const NamedTensor* other = part_of(tensors, source);
        other && (down || part_of(tensors, "W_q_a")))
      fail("{}: latent attention is self-attention: keys and values come from X", other->source);
  if (!down) {
    if (up) fail("{} is alone: W_kv_a makes what it multiplies; give W_kv_a", up->source);
    return;
  }
  const NamedTensor* norm = part_of(tensors, "kv_a_norm.weight");
  if (!up && !norm)
    fail(
        "{}: kv_a_norm.weight or W_kv_b is missing, so that it is unknown where the shared part of "
        "the key begins",
        down->source);
  const std::size_t r = norm ? norm->tensor.count() : up->tensor.shape()[0];
  const std::size_t columns = down->tensor.shape()[1];
  if (r >= columns)
    fail("{} is {}: {} compressed ones ({}) and a shared part of the key expected", down->source,
         to_string(down->tensor.shape()), r, norm ? norm->source : up->source);
  const std::size_t shared = columns - r;
  const NamedTensor whole = *down; // a copy: `tensors` changes below
  put(tensors, "W_c_kv", whole, columns_of(whole.tensor, 0, r, columns), "the compressed ones");
  put(tensors, "W_k_pe", whole, columns_of(whole.tensor, r, shared, columns), "the shared key");
  tensors.erase("W_kv_a");
  if (const NamedTensor* bias = part_of(tensors, "b_kv_a")) {
    const NamedTensor both = *bias;
    if (both.tensor.count() != columns)
      fail("{} is {}: {} expected", both.source, to_string(both.tensor.shape()), columns);
    put(tensors, "b_c_kv", both, columns_of(both.tensor, 0, r, columns), "the compressed ones");
    put(tensors, "b_k_pe", both, columns_of(both.tensor, r, shared, columns), "the shared key");
    tensors.erase("b_kv_a");
  }
  if (!up) return;
  const NamedTensor expand = *up;
  const std::size_t d_k = head_width(tensors, settings, heads, shared);
  const std::size_t width = heads == 0 ? 0 : expand.tensor.shape()[1] / heads; // d_k − d_pe + d_v
  if (d_k <= shared || d_k - shared >= width || expand.tensor.shape()[1] % heads != 0)
    fail("{} is {}: of {}, each has a key of {} without the {} that all share, and a value: give "
         "num_heads, and W_q, q or rope_first, which give the width of a head",
         expand.source, to_string(expand.tensor.shape()), counted(heads, "heads"),
         d_k > shared ? std::to_string(d_k - shared) : "unknown width", shared);
  const std::size_t own = d_k - shared;
  put(tensors, "W_k", expand, columns_of(expand.tensor, 0, own, width, shared), "k");
  put(tensors, "W_v", expand, columns_of(expand.tensor, own, width - own, width), "v");
  tensors.erase("W_kv_b");
}

} // namespace mha
