#pragma once
// A rotation in all its parts, each of which another implementation may have otherwise.

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
  double factor = 1;               ///< of what is rotated: YaRN's attention factor
  std::vector<double> frequencies; ///< dims / 2
  std::function<double(std::size_t b, std::size_t t)> position;
  std::function<double(double)> round_angle, round_cosine; ///< empty: exact
};

/// The rotation as the layer has it.
Turn turn_of(const Layer& layer);
/// x: B, tokens, heads · d_k. Su et al. 2021.
Tensor turned(const Layer& layer, const Tensor& x, const Turn& turn);
/// q_rope and k_rope (or one of them) are given so.
void turn_with(Layer& layer, const Turn& turn, bool q = true, bool k = true);

} // namespace mha
