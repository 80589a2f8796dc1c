#pragma once
// Position bias: explicit, relative (T5) and ALiBi.

#include <mha/layer/layer.hpp>

namespace mha {

/// The slopes of ALiBi for H heads: 2^(−8(h+1)/H) where H is a power of two. Otherwise (Press et
/// al. 2022) the slopes of the next lower power, then every other one of the next higher; MPT takes
/// the odd ones of the next higher power first, then the even ones.
std::vector<double> alibi_slopes(std::size_t heads, Alibi form);

/// Adds the explicit and the relative position bias, if there is one, to keys [first, last) of the
/// row of query t.
template <class T> void add_bias(const Layer& layer, std::size_t b, std::size_t h, std::size_t t,
                                 std::size_t first, std::size_t last, T* row);

/// Adds head h's ALiBi to keys [first, last) of the row of query t.
template <class T> void add_alibi(const Layer& layer, T slope, std::size_t b, std::size_t t,
                                  std::size_t first, std::size_t last, T* row);

/// row += the broadcast values, where they cover keys [first, last).
template <class T> void add_broadcast(const Broadcast& from, std::size_t b, std::size_t h,
                                      std::size_t t, std::size_t first, std::size_t last, T* row);

} // namespace mha
