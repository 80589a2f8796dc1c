#pragma once
// Position bias: explicit, relative (T5; Shaw et al., BERT) and ALiBi.

#include <mha/kernels/matrix.hpp>
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

/// Adds scale · (q r) to keys [first, last) of the row of query t, r the vector of its distance to
/// the key (relative_key); with relative_key_query scale · (q r + k r). Shaw et al. 2018, and
/// BERT's position_embedding_type.
template <class T> void add_relative_key(const Layer& layer, std::size_t b, std::size_t t,
                                         const T* query, Matrix<const T> keys, std::size_t first,
                                         std::size_t last, T* row);

/// All of them together, for the steps of many rows.
template <class T> class PositionBias {
public:
  explicit PositionBias(const Layer& layer) : layer_(layer) {
    if (layer.settings.alibi != Alibi::none)
      slopes_ = alibi_slopes(layer.dims.H, layer.settings.alibi);
  }
  /// Adds what keys [first, last) of the row of query t get. `vectors` has the query and the keys
  /// that its head reads.
  template <class Vectors> void add(std::size_t b, std::size_t h, std::size_t t, std::size_t first,
                                    std::size_t last, T* row, const Vectors& vectors) const {
    add_bias(layer_, b, h, t, first, last, row);
    if (!slopes_.empty()) add_alibi(layer_, static_cast<T>(slopes_[h]), b, t, first, last, row);
    if (layer_.relative_key.empty()) return;
    const bool of_keys = layer_.settings.relative_key_query;
    add_relative_key(layer_, b, t, vectors.query(),
                     of_keys ? vectors.keys_read() : Matrix<const T>(), first, last, row);
  }

private:
  const Layer& layer_;
  std::vector<double> slopes_;
};

/// row += the broadcast values, where they cover keys [first, last).
template <class T> void add_broadcast(const Broadcast& from, std::size_t b, std::size_t h,
                                      std::size_t t, std::size_t first, std::size_t last, T* row);

} // namespace mha
