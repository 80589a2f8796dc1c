#pragma once
// Which keys a query may not attend to. Masks decide it, never a score: one that overflowed to −inf
// is no mask.

#include <mha/layer/layer.hpp>

#include <cstdint>
#include <vector>

namespace mha {

/// −inf, and what no score reaches: masks written as −1e9, or as a type's lowest number.
template <class T> bool is_masked(T mask) {
  return mask <= static_cast<T>(-1e8);
}

/// Whether anything says what a query may not see: causal, a window, kv_lengths, a mask tensor, a
/// bias of −inf, or `masked` given as a tensor.
bool has_masks(const Layer& layer);
/// Whether heads may be masked in different ways.
bool masks_differ_by_head(const Layer& layer);

/// Of query t: S_all flags, 1 = may not be attended to. A stage `masked` or `shifted` that is given
/// decides; else mask tensors, position biases, causal, windows and lengths do, whatever the
/// computation starts from. Numbers mask as is_masked() says; where all of a row's are finite, no
/// key is masked: its softmax attends all the same.
void masked_keys(const Layer& layer, std::size_t b, std::size_t h, std::size_t t,
                 std::vector<std::uint8_t>& masked);
std::vector<std::uint8_t> masked_keys(const Layer& layer, std::size_t b, std::size_t h,
                                      std::size_t t);

} // namespace mha
