#pragma once
// Keys that a query may not attend to. Only masks decide this: a score that overflowed to −inf is
// not a mask.

#include <mha/layer/layer.hpp>

#include <cstdint>
#include <vector>

namespace mha {

/// Whether a number masks: −inf, or below all scores, such as −1e9 or a type's lowest number.
template <class T> bool is_masked(T mask) {
  return mask <= static_cast<T>(-1e8);
}

/// Whether anything may hide keys: causal, a window, kv_lengths, a mask tensor, a position bias, or
/// a given `masked`.
bool has_masks(const Layer& layer);
/// Whether heads may be masked in different ways.
bool masks_differ_by_head(const Layer& layer);

/// S_all flags for query t; 1 means that the key may not be attended to. A given `masked` or
/// `shifted` decides; else mask tensors, position biases, causal, windows and lengths, whatever the
/// computation starts from. Numbers mask by is_masked(); but if all of a row's mask numbers are
/// finite and mask, none does, because the softmax attends nevertheless.
void masked_keys(const Layer& layer, std::size_t b, std::size_t h, std::size_t t,
                 std::vector<std::uint8_t>& masked);
std::vector<std::uint8_t> masked_keys(const Layer& layer, std::size_t b, std::size_t h,
                                      std::size_t t);

} // namespace mha
