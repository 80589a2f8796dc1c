#pragma once
// The steps of the reference that depend on where tokens stand: rotary embedding, bias, masks.

#include "support/reference.hpp"

#include <limits>

namespace reference {

inline constexpr double infinity = std::numeric_limits<double>::infinity();

inline double real(std::size_t n) {
  return static_cast<double>(n);
}

/// Element (b, h, t, j) of every row of a map becomes f(element, b, h, t, j).
template <class F> Array each(const Array& from, F f) {
  Array to(from.shape);
  for (std::size_t b = 0; b < from.shape[0]; ++b)
    for (std::size_t h = 0; h < from.shape[1]; ++h)
      for (std::size_t t = 0; t < from.shape[2]; ++t)
        for (std::size_t j = 0; j < from.shape[3]; ++j)
          to(b, h, t, j) = f(from(b, h, t, j), b, h, t, j);
  return to;
}

/// q or k rotated; B, heads, rows, d.
Array rotated(const Layer& layer, const Array& q);
/// Plus the position bias; B, H, T, S_all.
Array biased(const Layer& layer, const Array& capped);
/// Plus scale · (q + k, if it has both) · the vector of query − key; B, H, T, S_all.
Array with_relative_key(const Layer& layer, const Array& q, const Array& k, Array biased);
/// Plus the masks; B, H, T, S_all.
Array masked(const Layer& layer, const Array& biased);

} // namespace reference
