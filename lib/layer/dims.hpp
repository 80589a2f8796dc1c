#pragma once
// The letters of shapes, each a record: its name, the axis that it counts, its size in a layer.

#include <mha/system/export.hpp>

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace mha {

/// The letters of shapes (docs/stages.md): T queries, S keys, H heads. Those from `d_in` on are
/// lengths of a tensor's own, which follow from no other tensor.
enum class Dim : std::uint8_t {
  T,
  S,
  S_all,
  H,
  H_kv,
  d_model,
  d_k,
  d_v,
  d_gate,
  H_d_v,
  d_out,
  r_q,
  r_kv,
  d_pe,
  d_ff,
  d_layer,
  vocabulary,
  B,
  P,
  d_in,
  widths,
  r_kv_d_pe,
  keys_values,
  buckets,
  distances,
  rope_pairs,
  E,
  I,
  I_shared,
  H_qk,
  H_I,
  d_I,
  taps,
  three,
  n,
  n_d_out,
  one,
};
inline constexpr std::size_t dim_count = static_cast<std::size_t>(Dim::one) + 1;

/// What an axis counts, for selections and labels.
enum class Axis : std::uint8_t { batch, head, kv_head, query, key, width, chosen };

/// The sizes of a layer; 0 = not known from the files (a layer that starts at `weights` has no
/// d_k).
struct Dims {
  ///@{
  /// How many there are of a letter of docs/stages.md; past, extra and zero keys.
  std::size_t B = 1;
  bool batched = false; ///< whether shapes have the batch axis
  std::size_t T = 0;
  std::size_t S = 0;                                    ///< current keys
  std::size_t past = 0, extra = 0, zero = 0, S_all = 0; ///< S_all = past + S + extra + zero
  std::size_t H = 0, H_kv = 0;
  std::size_t d_model = 0; ///< width of X
  std::size_t d_k = 0, d_v = 0;
  std::size_t d_gate = 0; ///< numbers of a head's gate: d_v, or 1
  std::size_t d_out = 0;  ///< width of the output
  std::size_t r_q = 0,
              r_kv = 0; ///< widths of latent attention's compressed queries, keys and values
  std::size_t d_pe = 0; ///< width of its part of the key that all heads share
  std::size_t d_ff = 0, vocabulary = 0; ///< of a layer of a whole model, and of its ends
  std::size_t d_layer = 0;              ///< width of the tokens' embedding for a layer
  /// Of a mixture: experts, those chosen for a token, the width of one (then d_ff is n · I), and
  /// of the shared ones.
  std::size_t E = 0, n = 0, I = 0, I_shared = 0;

  ///@}
  std::size_t group() const { return H / H_kv; } ///< query heads that share a key/value head
  MHA_API std::size_t size_of(Dim letter) const; ///< by the letter of a shape
  /// All of them.
  friend bool operator==(const Dims&, const Dims&) = default;
};

/// One letter.
struct DimInfo {
  Dim letter;               ///< which it is
  std::string_view name;    ///< "d_model", "H·d_v"
  Axis axis;                ///< what it counts
  std::size_t Dims::*size;  ///< nullptr: a tensor's own length, or a product
  std::string_view counted; ///< what there are so many of, for messages: "queries"
};
const DimInfo& info_of(Dim letter); ///< of the table of letters

/// "d_model", "H·d_v" …
MHA_API std::string_view name_of(Dim letter);
Axis axis_of(Dim letter); ///< what a letter counts

/// The length of an axis: a letter, or the product of two.
struct Length {
  Dim letter;                                               ///< the first, or the only one
  std::optional<Dim> times{};                               ///< the other factor
  Length(Dim one) : letter(one) {}                          ///< of a letter
  Length(Dim one, Dim other) : letter(one), times(other) {} ///< of a product
};
/// H·d_k: heads side by side.
inline Length by(Dim heads, Dim width) {
  return {heads, width};
}
/// "H·d_k".
std::string text_of(const Length& length);
/// In a layer of these sizes; 0 where one of its letters has none.
std::size_t size_of(const Length& length, const Dims& dims);

} // namespace mha
