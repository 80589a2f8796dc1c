#pragma once
// Masks: which scores become −inf, and which numbers are added.

#include <mha/schedule/visible.hpp>

namespace mha {

/// Applies every mask to some keys of a row: adds the float ones, −inf where its query may not
/// attend.
template <class T> void add_masks(const Layer& layer, const RowPlace& at, Keys<T> keys);

/// Fills `row`, a number a key (S_all), with what mask tensors, biases, causal, windows and lengths
/// add for its query, or with what was given as `shifted` or `masked`.
template <class T> void mask_row(const Layer& layer, const RowPlace& at, T* row);

/// Whether masks, biases of −inf, window and lengths leave a query no key; where the computation
/// starts after the masks, true: the given stage decides. Only this makes a masked row: scores that
/// all overflow to −inf are none.
template <class T> bool masks_every_key(const Layer& layer, const RowPlace& at);

} // namespace mha
