#pragma once
// Which routine multiplies for which batch item: it follows from the item's own length, so that an
// item has the bits of its lone run, however long its neighbours are.

#include <mha/kernels/routine.hpp>
#include <mha/layer/layer.hpp>

#include <algorithm>
#include <vector>

namespace mha {

/// How many of a batch item's tokens are its own: of T (or S) those that are no padding.
inline std::size_t own_length(const Layer& layer, std::size_t batch, std::size_t tokens) {
  return layer.lengths.empty() ? tokens : std::min(tokens, layer.lengths[batch]);
}

class Routines {
public:
  Routines() = default;
  /// `chosen(own)` for each item; own(tokens): how many of T or S tokens are the item's own.
  template <class F> Routines(const Layer& layer, const F& chosen) {
    for (std::size_t b = 0; b < layer.dims.B; ++b)
      of_item_.push_back(chosen([&](std::size_t tokens) { return own_length(layer, b, tokens); }));
  }

  Routine of(std::size_t batch) const { return of_item_[batch]; }
  /// How many items one multiplies for.
  std::size_t count(Routine routine) const {
    return static_cast<std::size_t>(std::ranges::count(of_item_, routine));
  }

private:
  std::vector<Routine> of_item_;
};

} // namespace mha
