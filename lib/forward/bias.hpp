#pragma once
// Position bias: explicit, relative (T5; Shaw et al., BERT) and ALiBi.

#include <mha/kernels/matrix.hpp>
#include <mha/schedule/visible.hpp>

namespace mha {

/// The slopes of ALiBi for H heads: 2^(−8(h+1)/H) where H is a power of two. Otherwise (Press et
/// al. 2022) the slopes of the next lower power, then every other one of the next higher; MPT takes
/// the odd ones of the next higher power first, then the even ones.
std::vector<double> alibi_slopes(std::size_t heads, Alibi form);

/// row += the broadcast values, where they cover these keys.
template <class T> void add_broadcast(const Broadcast& from, const RowPlace& at, Keys<T> keys);

/// Adds the explicit and the relative position bias, if there is one, to keys of a row.
template <class T> void add_bias(const Layer& layer, const RowPlace& at, Keys<T> keys);

/// Adds ALiBi with this slope to keys of a row.
template <class T> void add_alibi(const Layer& layer, T slope, const RowPlace& at, Keys<T> keys);

/// Adds scale · (q r) to keys of the row of query q, r the vector of its distance to the key
/// (relative_key); with the keys k, relative_key_query, scale · (q r + k r). Shaw et al. 2018, and
/// BERT's position_embedding_type.
template <class T> void add_relative_key(const Layer& layer, const RowPlace& at, const T* q,
                                         Matrix<const T> k, Keys<T> keys);

/// All of them together, for the steps of many rows.
template <class T> class PositionBias {
public:
  explicit PositionBias(const Layer& layer) : layer_(layer) {
    if (layer.settings.alibi != Alibi::none)
      slopes_ = alibi_slopes(layer.dims.H, layer.settings.alibi);
  }
  /// Adds what keys of a row get. `vectors` has the query, and the keys that its head reads.
  template <class Vectors>
  void add(const RowPlace& at, Keys<T> keys, const Vectors& vectors) const {
    add_bias(layer_, at, keys);
    if (!slopes_.empty()) add_alibi(layer_, static_cast<T>(slopes_[at.head]), at, keys);
    if (layer_.relative_key.empty()) return;
    const bool of_keys = layer_.settings.relative_key_query;
    add_relative_key(layer_, at, vectors.query(), of_keys ? vectors.keys_read() : Matrix<const T>(),
                     keys);
  }

private:
  const Layer& layer_;
  std::vector<double> slopes_;
};

} // namespace mha
