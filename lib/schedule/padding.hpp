#pragma once
// Padding of a batch of texts: what follows the end of a shorter one is not computed, and is
// shown as zeros.

#include <mha/schedule/observer.hpp>
#include <mha/schedule/place.hpp>
#include <mha/schedule/plan.hpp>

namespace mha {

/// How many rows of a place of a stage, from its first on, are not padding.
std::size_t own_rows(const Layer& layer, Stage stage, const Place& place);

/// Shows an observer zeros in the padding of every place of a plan, on up to `threads` threads, so
/// that every number of a dump is known. Padded keys of a text's own rows are shown with the rows:
/// as zeros, in `masked` and `shifted` as −inf.
void show_padding(const Layer& layer, const Plan& plan, Observer& observer, std::size_t threads);

/// A copy of a piece's rows; zeros of padding take no memory.
Tensor kept_rows(const Slice& piece, const ArrayView& rows);

} // namespace mha
