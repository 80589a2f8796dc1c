#pragma once
// Which routine multiplies for which batch item: it follows from the item's own length, so that an
// item has the bits of its lone run, however long its neighbours are.

#include <mha/kernels/routine.hpp>
#include <mha/layer/layer.hpp>
#include <mha/schedule/visible.hpp>

#include <map>
#include <vector>

namespace mha {

/// Of the weights that tokens are multiplied with, the columns of the narrowest.
std::size_t narrowest_projection(const Layer& layer);

/// Whether a layer's weights may be multiplied in bfloat16 parts: they are stored in bfloat16 or
/// float16, of which most products of parts are zeros, or all of them fit into the caches. What
/// follows from the sizes and types of a layer is the same in every pass.
bool splitting_weights_pays(const Layer& layer);

class Routines {
public:
  Routines() = default;
  /// `chosen(queries, keys)` for each item: how many of them a lone run of it has.
  template <class F> Routines(const Layer& layer, const F& chosen) {
    const Dims& dims = layer.dims;
    for (std::size_t b = 0; b < dims.B; ++b)
      of_item_.push_back(chosen(layer.length_of(b), keys_of(layer, b) + dims.extra + dims.zero));
    for (Routine routine : of_item_) ++counts_[routine];
  }

  Routine of(std::size_t batch) const { return of_item_[batch]; }
  /// How many items one multiplies for.
  std::size_t count(Routine routine) const {
    const auto at = counts_.find(routine);
    return at == counts_.end() ? 0 : at->second;
  }

private:
  std::vector<Routine> of_item_;
  std::map<Routine, std::size_t> counts_;
};

} // namespace mha
