#pragma once
// Which keys a query may see by causal, window and kv_lengths.

#include <mha/layer/layer.hpp>

namespace mha {

/// Keys a query may see by causal, window and kv_lengths: [first, last) of past and current keys;
/// extra and zero keys, which follow them, are always seen.
struct Visible {
  std::size_t first = 0, last = 0;
};
Visible visible_keys(const Layer& layer, std::size_t b, std::size_t t);

/// The keys that some queries can see, in whole steps: to the last one where there are extra or
/// zero keys.
Visible visible_tiles(const Layer& layer, std::size_t b, std::size_t first_query,
                      std::size_t queries, std::size_t step);

} // namespace mha
