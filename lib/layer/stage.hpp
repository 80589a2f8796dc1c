#pragma once
// The table of stages: every intermediate of attention under its one name. Help, `mha-inspect
// stages`, docs/stages.md and the tests print or loop over it.

#include <mha/system/error.hpp>

#include <array>
#include <bitset>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace mha {

struct Layer;
class Tensor;

/// The stages, in the order of the computation.
enum class Stage : std::uint8_t {
  embed,
  resid_pre,
  x,
  c_q,
  c_kv,
  k_pe,
  q,
  k,
  v,
  q_norm,
  k_norm,
  q_rope,
  k_rope,
  k_all,
  v_all,
  scores,
  scaled,
  capped,
  biased,
  masked,
  row_max,
  shifted,
  exp,
  row_sum,
  logsumexp,
  weights,
  head_out,
  head_result,
  concat,
  output,
  attn_add,
  residual,
  mlp_x,
  mlp_pre,
  mlp_up,
  mlp_act,
  mlp_out,
  mlp_add,
  resid_post,
  final,
  logits,
};
inline constexpr std::size_t stage_count = static_cast<std::size_t>(Stage::logits) + 1;

/// How a stage exists while the layer is computed.
enum class Kind : std::uint8_t {
  token,       ///< a whole tensor, one row a token
  map,         ///< T × S a head, in blocks of 256 queries
  row,         ///< one number a query and head
  head_result, ///< T × d_model a head, in blocks of 256 queries
};

/// The letters of shapes (docs/stages.md): T queries, S keys, H heads.
enum class Dim : std::uint8_t {
  T,
  S,
  S_all,
  H,
  H_kv,
  d_model,
  d_k,
  d_v,
  H_d_v,
  d_out,
  r_q,
  r_kv,
  d_pe,
  d_ff,
  vocabulary,
};
/// "d_model", "H·d_v" …
MHA_API std::string_view name_of(Dim letter);

/// What an axis counts, for selections and labels.
enum class Axis : std::uint8_t { batch, head, kv_head, query, key, width };
Axis axis_of(Dim letter);

/// One row of the table.
struct StageInfo {
  ///@{
  /// Which it is, by number and name, and how it exists.
  Stage stage;
  std::string_view name;
  Kind kind;
  ///@}
  std::vector<Dim> letters; ///< the shape, without the batch axis
  std::string_view value;   ///< the formula, short: "X W_q + b_q"
  std::string_view text;    ///< what it is, in words
  std::string_view part;    ///< when it is part of a layer: "always", "if …"
  std::vector<Stage>
      inputs; ///< computed from; one that a layer does not have stands for its own inputs
  std::string_view aliases;                ///< other tools' names, separated by spaces
  bool (*is_step)(const Layer&) = nullptr; ///< whether a layer has it at all; nullptr: always
  std::vector<Tensor Layer::*> reads = {}; ///< the layer's tensors that its formula reads
};

MHA_API std::span<const StageInfo> stages();
MHA_API const StageInfo& info_of(Stage stage);
MHA_API std::string_view name_of(Stage stage);

/// Whether a stage is of the residual stream around attention: part of a layer of a whole model,
/// and of no lone layer. `residual` is of both.
bool is_stream(Stage stage);
/// Whether a stage is of a whole model and none of its layers: embed, final, logits.
bool is_of_model(Stage stage);

/// A set of stages.
using StageSet = std::bitset<stage_count>;
inline std::size_t index_of(Stage stage) {
  return static_cast<std::size_t>(stage);
}
inline bool contains(const StageSet& set, Stage stage) {
  return set.test(index_of(stage));
}
inline StageSet set_of(std::initializer_list<Stage> stages) {
  StageSet set;
  for (Stage stage : stages) set.set(index_of(stage));
  return set;
}

/// The stage that a name means, aliases and prefixes such as `blocks.0.attn.` included; nothing if
/// it is no stage. Throws Error for a word that means several things, naming the choices.
MHA_API std::optional<Stage> find_stage(std::string_view name);
/// The same, but an unknown name throws Error with "did you mean".
MHA_API Stage stage_named(std::string_view name);
/// The stages that an ambiguous word of the field may mean ("attn_weights"); empty for other words.
MHA_API std::vector<Stage> readings_of(std::string_view name);
/// The words that have several.
std::vector<std::string_view> ambiguous_words();

} // namespace mha
