#pragma once
// Masks: which scores become −inf, and which numbers are added.

#include <mha/layer/layer.hpp>

namespace mha {

/// Applies every mask to keys [first, last) of the row of query t: adds the float ones, −inf where
/// it may not attend.
template <class T> void add_masks(const Layer& layer, std::size_t b, std::size_t h, std::size_t t,
                                  std::size_t first, std::size_t last, T* row);

/// Fills `row`, a number a key (S_all), with what mask tensors, biases, causal, windows and lengths
/// add for query t, or with what was given as `shifted` or `masked`.
template <class T>
void mask_row(const Layer& layer, std::size_t b, std::size_t h, std::size_t t, T* row);

/// Whether masks, biases of −inf, window and lengths leave query t no key; where the computation
/// starts behind the masks, true: what is given says it. Only this makes a masked row: scores that
/// all overflow to −inf are none.
template <class T>
bool masks_every_key(const Layer& layer, std::size_t b, std::size_t h, std::size_t t);

} // namespace mha
