#include <mha/schedule/routines.hpp>

#include <mha/layer/names.hpp>
#include <mha/tensor/storage.hpp>

#include <algorithm>

namespace mha {

namespace {

/// Bytes of a layer's split weights that the caches of a processor with AMX hold from one pass to
/// the next. Beyond them each pass reads six bytes a number from memory where a plain product reads
/// four, which takes longer than the faster unit saves.
constexpr std::size_t most_split_bytes = std::size_t{32} << 20;

/// The bfloat16 parts whose sum a stored number is exactly.
std::size_t parts_of(DType stored) {
  return stored == DType::bf16 ? 1 : stored == DType::f16 ? 2 : 3;
}

} // namespace

std::size_t narrowest_projection(const Layer& layer) {
  std::size_t narrowest = layer.dims.d_out;
  for (const Tensor* W : {&layer.W_q, &layer.W_k, &layer.W_v, &layer.W_o})
    if (!W->empty()) narrowest = std::min(narrowest, W->shape()[1]);
  return narrowest;
}

bool splitting_weights_pays(const Layer& layer) {
  constexpr std::size_t bytes_of_part = 2;
  std::size_t bytes = 0, most_parts = 0;
  const auto add = [&](const Tensor& W) {
    if (W.empty()) return;
    const std::size_t parts = parts_of(stored_form(W).matrix.dtype());
    most_parts = std::max(most_parts, parts);
    bytes += W.count() * parts * bytes_of_part;
  };
  for (const Tensor* W :
       {&layer.W_q, &layer.W_k, &layer.W_v, &layer.W_o, &layer.W_c_q, &layer.W_c_kv, &layer.W_k_pe})
    add(*W);
  if (layer.block)
    for (const LinearMap* map : {&layer.block->mlp.in, &layer.block->mlp.up, &layer.block->mlp.out})
      add(map->W);
  if (layer.ends) add(layer.ends->head.dense.W), add(layer.ends->head.decoder.W);
  return most_parts < parts_of(DType::f32) || bytes <= most_split_bytes;
}

} // namespace mha
