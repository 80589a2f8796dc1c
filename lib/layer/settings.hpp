#pragma once
// The settings of a layer: one table, from which files, options, help and `info` take names and
// values.

#include <mha/system/error.hpp>

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace mha {

/// The factor of the scores: 1/√d_k, 1/√d_model, 1, or Settings::scale_value.
enum class ScaleKind : std::uint8_t { d_k, d_model, none, number };
/// `affine` multiplies and adds without normalising; `checkpoint` is the norm of the checkpoint's
/// family, with the layer's own weights.
enum class InputNorm : std::uint8_t { none, layer, rms, affine, checkpoint };
/// The corner of T × S that the causal diagonal runs through. `automatic`: query 0 sees the past
/// keys and key 0, or bottom right with kv_lengths.
enum class CausalAlign : std::uint8_t { automatic, top_left, bottom_right };
enum class Rope : std::uint8_t { none, half, interleaved };
enum class RopeScaling : std::uint8_t { none, linear, llama3, dynamic, yarn, longrope };
enum class QkNorm : std::uint8_t { rms, layer };
/// What the gate of the heads' results goes through: σ(g), log(1 + eᵍ), g σ(g).
enum class GateActivation : std::uint8_t { sigmoid, softplus, silu };
/// The form of the slopes: as in the paper, or as a family computes them.
enum class Alibi : std::uint8_t { none, paper, bloom, falcon, mpt };
/// `stable` subtracts the row's maximum before exp; `naive` does not, and may overflow.
enum class Softmax : std::uint8_t { stable, naive };
/// The order of the columns of W_qkv; `per_group`: each key/value head after its query heads.
enum class QkvOrder : std::uint8_t { qkv, qvk, kqv, kvq, vqk, vkq, per_group };
/// The weights of a row without a visible key: 0, NaN or 1/S.
enum class MaskedRows : std::uint8_t { zero, nan, uniform };

/// Every choice that is not a tensor. The defaults are those of the original paper.
struct Settings {
  ///@{
  /// The members of the table of settings (mha-inspect-formats(5)).
  std::size_t num_heads = 0;    ///< H; 0 = taken from the tensors
  std::size_t num_kv_heads = 0; ///< H_kv; 0 = taken from the tensors
  ScaleKind scale = ScaleKind::d_k;
  double scale_value = 0; ///< for ScaleKind::number
  InputNorm input_norm = InputNorm::none;
  double input_norm_eps = 1e-5;
  bool causal = false;
  CausalAlign causal_align = CausalAlign::automatic;
  std::int64_t window_left = -1, window_right = -1; ///< −1 = unbounded; left L keeps L + 1 keys
  std::size_t window_chunk = 0; ///< a query sees its own chunk of this many positions; 0 = all
  double softcap = 0;                               ///< 0 = none
  double temperature = 0; ///< β: scores of position p · (1 + β ln(1 + ⌊(p + offset) / length⌋))
  double temperature_length = 8192;
  std::size_t temperature_offset = 0;
  Rope rope = Rope::none;
  double rope_base = 10000;
  std::size_t rope_dims = 0;  ///< rotated dimensions of a head; 0 = all from rope_first on
  std::size_t rope_first = 0; ///< first rotated dimension; in latent attention the last ones rotate
  std::optional<std::int64_t> rope_offset =
      {}; ///< position of token 0; default: the number of past keys
  RopeScaling rope_scaling = RopeScaling::none;
  double rope_factor = 1; ///< how much longer the sequences become
  double rope_low_freq_factor = 1, rope_high_freq_factor = 4; ///< llama3
  double rope_original_length = 8192;             ///< length trained on: all kinds but linear
  std::size_t rope_length = 0;                    ///< dynamic, longrope: 0 = the last position + 1
  double rope_beta_fast = 32, rope_beta_slow = 1; ///< yarn: turns within the original length
  bool rope_truncate = true;                      ///< yarn: the ramp begins and ends at whole pairs
  double rope_mscale = 0, rope_mscale_all_dim = 0; ///< yarn: of the attention factor; 0 = none
  double rope_attention_factor = 0;                ///< of cosines and sines; 0 = from rope_scaling
  std::array<std::size_t, 3> mrope_section{};      ///< pairs by time, height, width; zeros: none
  bool mrope_interleaved = false;                  ///< pairs alternate between the sections
  double clip_qkv = 0;                             ///< q, k and v are clipped to ± this; 0 = none
  Alibi alibi = Alibi::none;
  bool relative_bidirectional = true;      ///< relative_bias: later keys have buckets of their own
  std::size_t relative_max_distance = 128; ///< relative_bias: farther keys share the last bucket
  bool relative_key_query = false;         ///< relative_key: keys are multiplied with it, too
  QkNorm qk_norm = QkNorm::rms;
  double qk_norm_eps = 1e-6;
  bool qk_norm_one_plus = false;    ///< the weight is 1 + w
  bool norm_after_rotation = false; ///< q and k are rotated first, then normalised
  GateActivation gate_activation = GateActivation::sigmoid;
  bool residual = false;
  bool zero_attn = false;
  Softmax softmax = Softmax::stable;
  MaskedRows masked_rows = MaskedRows::zero;
  QkvOrder qkv_order = QkvOrder::qkv; ///< columns of W_qkv
  bool columns = false;               ///< tokens are columns in every file and every result

  ///@}
  /// Where each value came from ("--causal", "layer.json", "config.json"), by name; absent =
  /// default.
  std::map<std::string, std::string, std::less<>> origins = {};
};

enum class SettingKind : std::uint8_t { boolean, count, integer, number, choice };

/// One row of the table of settings.
struct SettingInfo {
  std::string_view name;                         ///< "num_heads"; the option is --num-heads
  SettingKind kind;                              ///< the type of the value
  std::string_view values;                       ///< for help: "N", "none|layer|rms"
  std::string_view text;                         ///< what the setting does, for help
  std::string_view aliases;                      ///< its names elsewhere, separated by spaces
  void (*set)(Settings&, std::string_view text); ///< throws Error with what was expected
  std::string (*get)(const Settings&);           ///< the value as text that `set` reads back
};

MHA_API std::span<const SettingInfo> settings_table();
/// The row with this name or alias; nullptr if there is none.
MHA_API const SettingInfo* find_setting(std::string_view name);

/// Whether a value's origin is the setting itself, as the one who gives it writes it ("causal",
/// "--causal"), and no file.
MHA_API bool is_given(std::string_view origin);

/// Sets one value from text and remembers where it came from. Throws Error
/// "ORIGIN: causal is 'maybe': true or false expected".
MHA_API void set(Settings& settings, std::string_view name, std::string_view text,
                 std::string_view origin);

/// Throws Error "rope_base is nan: a positive number expected" for a value that `set` would refuse:
/// programs write members directly.
void require_valid(const Settings& settings);

} // namespace mha
