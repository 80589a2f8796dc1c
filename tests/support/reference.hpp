#pragma once
// Attention once more, in double precision, straight from the formulas: xtensor's axes where they
// say it shorter, plain loops elsewhere. What the library is compared with; it shares no code with
// that, and is as slow as it looks.

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <string>
#include <vector>

namespace reference {

using Shape = std::vector<std::size_t>;

/// Numbers with a shape, row-major. No axes: nothing there.
struct Array {
  Shape shape;
  std::vector<double> values;

  Array() = default;
  explicit Array(Shape the_shape, double fill = 0);
  bool empty() const { return shape.empty(); }
  template <class... Index> double& operator()(Index... index) { return values[flat({index...})]; }
  template <class... Index> double operator()(Index... index) const {
    return values[flat({index...})];
  }
  /// The element that (b, h, t, j) reads where axes of length 1 are repeated. Four axes.
  double broadcast(std::size_t b, std::size_t h, std::size_t t, std::size_t j) const;

private:
  std::size_t flat(std::initializer_list<std::size_t> index) const;
};

enum class Norm : std::uint8_t { none, layer, rms };
enum class Align : std::uint8_t { automatic, top_left, bottom_right };
enum class Rope : std::uint8_t { none, half, interleaved };
enum class Scaling : std::uint8_t { none, linear, llama3, dynamic, yarn, longrope };
enum class Alibi : std::uint8_t { none, paper, bloom, falcon, mpt };
enum class MaskedRows : std::uint8_t { zero, nan, uniform };
enum class Gate : std::uint8_t { sigmoid, softplus, silu };

/// One layer. B batches, T queries, S current keys, P past keys; S_all = P + S + extra + zero keys.
/// The batch axis is always there. What is empty is not there.
struct Layer {
  std::size_t H = 1, H_kv = 1, d_k = 1, d_v = 1;

  Array X;                  ///< B, T, d_model
  Array X_k, X_v;           ///< B, S, d; empty: x
  Array W_q, W_k, W_v, W_o; ///< in, out; empty: the identity
  Array b_q, b_k, b_v, b_o;
  Array norm_weight, norm_bias;       ///< d_model
  Array q_norm_weight, k_norm_weight; ///< d_k; H, d_k: each head's; H·d_k: the whole projection
  Array q_norm_bias, k_norm_bias;     ///< alike, of layer norms
  Array v_norm_weight, head_norm_weight; ///< as q_norm_weight, of d_v; RMS
  Array W_gate, b_gate;               ///< d_model, H·d_v: a number an element; or H: a head
  Array positions;                    ///< T; 3, T with mrope_section
  Array short_factor, long_factor;    ///< longrope's divisors, one a pair
  /// Latent attention: queries are W_q of norm(x W_q_a); W_kv_a makes r compressed columns and d_pe
  /// shared ones; W_kv_b, of each head its key without the shared part, then its value.
  std::size_t d_pe = 0;
  Array W_q_a, b_q_a, q_a_norm, W_kv_a, b_kv_a, kv_a_norm, W_kv_b;
  Array k_past, v_past;   ///< B, H_kv, P, d
  Array k_extra, v_extra; ///< H_kv·d
  Array sinks;            ///< H
  Array mask;             ///< added; B, H, T, keys, each possibly 1; keys: P + S or S_all, or fewer
  Array blocked;          ///< not 0: may not attend; axes as mask
  Array padding;          ///< not 0: ignored; B, S or B, S_all
  Array bias;             ///< B, H, T, keys, as mask
  Array relative_bias;    ///< buckets, H
  Array relative_key;     ///< 2M − 1, d_k
  std::vector<std::size_t> kv_lengths; ///< B: valid keys of P + S

  double scale = 1;
  Norm input_norm = Norm::none;
  double input_norm_eps = 1e-5;
  bool causal = false;
  Align align = Align::automatic;
  std::int64_t window_left = -1, window_right = -1;
  std::size_t window_chunk = 0;
  double temperature = 0, temperature_length = 1;
  std::size_t temperature_offset = 0;
  Gate gate = Gate::sigmoid;
  double softcap = 0;
  Rope rope = Rope::none;
  double rope_base = 10000;
  std::size_t rope_dims = 0; ///< 0: all of d_k from rope_first on
  std::size_t rope_first = 0;
  bool has_rope_offset = false;
  std::int64_t rope_offset = 0;
  Scaling rope_scaling = Scaling::none;
  double rope_factor = 1, rope_low = 1, rope_high = 4, rope_length = 8192;
  double beta_fast = 32, beta_slow = 1, mscale = 0, mscale_all_dim = 0, attention_factor = 0;
  bool truncate = true;
  std::size_t mrope[3] = {0, 0, 0};
  bool mrope_interleaved = false;
  double clip = 0;
  bool relative_key_query = false;
  bool qk_layer_norm = false;
  Alibi alibi = Alibi::none;
  bool relative_bidirectional = true;
  std::size_t relative_max_distance = 128;
  double qk_norm_eps = 1e-6;
  bool one_plus = false;
  bool norm_after_rope = false;
  bool residual = false;
  bool zero_key = false;
  bool naive = false;
  MaskedRows masked_rows = MaskedRows::zero;

  /// Stages that replace what would be computed, with the shapes of compute().
  std::map<std::string, Array> given;

  std::size_t B() const { return X.shape[0]; }
  std::size_t T() const { return X.shape[1]; }
  std::size_t S() const { return X_k.empty() ? T() : X_k.shape[1]; }
  std::size_t P() const { return k_past.empty() ? 0 : k_past.shape[2]; }
  std::size_t S_all() const {
    return P() + S() + (k_extra.empty() ? 0u : 1u) + (zero_key ? 1u : 0u);
  }
};

/// Every stage that the layer has, by name, with the batch axis.
std::map<std::string, Array> compute(const Layer& layer);

/// The slopes of ALiBi, one a head.
std::vector<double> alibi_slopes(std::size_t heads, Alibi form);

} // namespace reference
