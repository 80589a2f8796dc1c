#pragma once
// A rotation described by its parts, each of which may differ in another implementation.

#include <mha/layer/layer.hpp>

#include <functional>

namespace mha {

/// How q and k are rotated: out_i = x_i cos(a_i) ± x_j sin(a_i), where j is the dimension that i is
/// paired with.
struct Turn {
  bool interleaved = false;        ///< pairs (2i, 2i + 1); else (i, i + dims / 2)
  bool angles_interleaved = false; ///< dimension i takes angle ⌊i / 2⌋; else i mod (dims / 2)
  std::size_t first = 0, dims = 0; ///< the rotated dimensions of a head
  std::size_t apart = 0;           ///< pairs (i, i + apart), where that is not dims / 2
  double first_sign = -1,
         second_sign = 1;          ///< of the sine, in the pair's first and second dimension
  double factor = 1;               ///< of the rotated numbers: YaRN's attention factor
  std::vector<double> frequencies; ///< dims / 2
  std::function<double(std::size_t b, std::size_t t)> position;
  std::function<double(double)> round_angle, round_cosine; ///< empty: exact
};

/// The rotation of the layer.
Turn turn_of(const Layer& layer);
/// Rotates x, (B, tokens, heads · d_k), after Su et al. 2021.
Tensor turned(const Layer& layer, const Tensor& x, const Turn& turn);
/// Gives q_rope and k_rope, or one of them, rotated in this way.
void turn_with(Layer& layer, const Turn& turn, bool q = true, bool k = true);

} // namespace mha
