#pragma once
// The row of a query over its keys, and which of them it may see by causal, window, kv_lengths
// and padding.

#include <mha/layer/layer.hpp>

#include <algorithm>

namespace mha {

/// Where the row of a query is.
struct RowPlace {
  std::size_t batch = 0, head = 0, query = 0;
};

/// Some keys [first, last) of a row.
template <class T> struct Keys {
  T* row;
  std::size_t first, last;

  T* begin() const { return row + first; }
  T* end() const { return row + last; }
  std::size_t size() const { return last - first; }
  /// Those of them that are in [from, to).
  Keys within(std::size_t from, std::size_t to) const {
    const std::size_t begin = std::clamp(from, first, last);
    return {row, begin, std::clamp(to, begin, last)};
  }
};

/// Keys a query may see by causal, window, kv_lengths and padding: [first, last) of past and
/// current keys; extra and zero keys, which follow them, are always seen.
struct Visible {
  std::size_t first = 0, last = 0;
};
Visible visible_keys(const Layer& layer, std::size_t b, std::size_t t);

/// Past and current keys of a batch item, without padding.
std::size_t keys_of(const Layer& layer, std::size_t b);

/// The first keys of a batch item, in the order of S_all, that products are made of: no padding,
/// unless extra or zero keys follow it.
std::size_t computed_keys(const Layer& layer, std::size_t b);

/// The keys that some queries can see, in whole steps: to the last one where there are extra or
/// zero keys.
Visible visible_tiles(const Layer& layer, std::size_t b, std::size_t first_query,
                      std::size_t queries, std::size_t step);

} // namespace mha
