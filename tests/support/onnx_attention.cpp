#include "support/onnx_attention.hpp"

#include <cmath>
#include <limits>

namespace onnx {

namespace {

constexpr double infinite_score = std::numeric_limits<double>::infinity();

// (B, L, heads·d) to (B, heads, L, d); rank 4 is that already.
Array heads_apart(const Array& x, std::size_t heads) {
  if (x.shape.size() == 4) return x;
  const std::size_t d = x.shape[2] / heads;
  Array y({x.shape[0], heads, x.shape[1], d});
  for (std::size_t b = 0; b < x.shape[0]; ++b)
    for (std::size_t h = 0; h < heads; ++h)
      for (std::size_t i = 0; i < x.shape[1]; ++i)
        for (std::size_t c = 0; c < d; ++c) y(b, h, i, c) = x(b, i, h * d + c);
  return y;
}

// Along the tokens: (B, heads, P, d) and (B, heads, S, d) to (B, heads, P + S, d).
Array concatenated(const Array& past, const Array& current) {
  if (past.empty()) return current;
  const std::size_t P = past.shape[2];
  Array all({current.shape[0], current.shape[1], P + current.shape[2], current.shape[3]});
  for (std::size_t b = 0; b < all.shape[0]; ++b)
    for (std::size_t h = 0; h < all.shape[1]; ++h)
      for (std::size_t j = 0; j < all.shape[2]; ++j)
        for (std::size_t c = 0; c < all.shape[3]; ++c)
          all(b, h, j, c) = j < P ? past(b, h, j, c) : current(b, h, j - P, c);
  return all;
}

// What the mask adds to (b, h, i, j): the axes are aligned at the right, 1 is repeated, keys that a
// short mask leaves out are −inf.
double mask_at(const Inputs& inputs, std::array<std::size_t, 4> index) {
  const Array& mask = inputs.attn_mask;
  if (mask.empty()) return 0;
  if (index[3] >= mask.shape.back()) return -infinite_score;
  std::size_t flat = 0;
  for (std::size_t axis = 0; axis < mask.shape.size(); ++axis) {
    const std::size_t i = index[4 - mask.shape.size() + axis];
    flat = flat * mask.shape[axis] + (mask.shape[axis] == 1 ? 0 : i);
  }
  const double value = mask.values[flat];
  if (!inputs.mask_is_bool) return value;
  return value != 0 ? 0 : -infinite_score;
}

} // namespace

Outputs attention(const Inputs& inputs, const Attributes& a) {
  const Array Q = heads_apart(inputs.Q, a.q_num_heads);
  Outputs out;
  out.present_key = concatenated(inputs.past_key, heads_apart(inputs.K, a.kv_num_heads));
  out.present_value = concatenated(inputs.past_value, heads_apart(inputs.V, a.kv_num_heads));
  const Array &K = out.present_key, &V = out.present_value;
  const std::size_t B = Q.shape[0], H = Q.shape[1], L = Q.shape[2], d = Q.shape[3];
  const std::size_t keys = K.shape[2], group = H / K.shape[1];
  const double root = std::sqrt(a.scale == 0 ? 1 / std::sqrt(static_cast<double>(d)) : a.scale);
  for (Array& qk : out.qk_matmul_output) qk = Array({B, H, L, keys});
  auto& [raw, capped, masked, weights] = out.qk_matmul_output;
  Array Y({B, H, L, V.shape[3]});

  for (std::size_t b = 0; b < B; ++b)
    for (std::size_t h = 0; h < H; ++h)
      for (std::size_t i = 0; i < L; ++i) {
        // The query's position among the keys: after the cache.
        double position = static_cast<double>(i);
        if (!inputs.past_key.empty()) position += static_cast<double>(inputs.past_key.shape[2]);
        if (!inputs.nonpad_kv_seqlen.empty())
          position += static_cast<double>(inputs.nonpad_kv_seqlen[b]) - static_cast<double>(L);
        double max = -infinite_score, sum = 0;
        for (std::size_t j = 0; j < keys; ++j) {
          const double key = static_cast<double>(j);
          for (std::size_t c = 0; c < d; ++c)
            raw(b, h, i, j) += (Q(b, h, i, c) * root) * (K(b, h / group, j, c) * root);
          capped(b, h, i, j) =
              a.softcap > 0 ? a.softcap * std::tanh(raw(b, h, i, j) / a.softcap) : raw(b, h, i, j);
          const bool hidden = (a.is_causal && key > position) ||
                              (a.left_window_size >= 0 && key < position - a.left_window_size) ||
                              (a.right_window_size >= 0 && key > position + a.right_window_size) ||
                              (!inputs.nonpad_kv_seqlen.empty() && j >= inputs.nonpad_kv_seqlen[b]);
          masked(b, h, i, j) =
              hidden ? -infinite_score : capped(b, h, i, j) + mask_at(inputs, {b, h, i, j});
          max = std::fmax(max, masked(b, h, i, j));
        }
        if (max == -infinite_score) continue; // nothing may be attended to: zeros
        for (std::size_t j = 0; j < keys; ++j) sum += std::exp(masked(b, h, i, j) - max);
        for (std::size_t j = 0; j < keys; ++j) {
          weights(b, h, i, j) = std::exp(masked(b, h, i, j) - max) / sum;
          for (std::size_t c = 0; c < V.shape[3]; ++c)
            Y(b, h, i, c) += weights(b, h, i, j) * V(b, h / group, j, c);
        }
      }

  if (inputs.Q.shape.size() == 4) {
    out.Y = Y;
    return out;
  }
  out.Y = Array({B, L, H * V.shape[3]});
  for (std::size_t b = 0; b < B; ++b)
    for (std::size_t h = 0; h < H; ++h)
      for (std::size_t i = 0; i < L; ++i)
        for (std::size_t c = 0; c < V.shape[3]; ++c)
          out.Y(b, i, h * V.shape[3] + c) = Y(b, h, i, c);
  return out;
}

} // namespace onnx
