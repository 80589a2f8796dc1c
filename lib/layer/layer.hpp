#pragma once
// One attention layer, ready to compute: tensors in one precision and layout, sizes, settings.

#include <mha/layer/block.hpp>
#include <mha/layer/item_labels.hpp>
#include <mha/layer/patch.hpp>
#include <mha/layer/settings.hpp>
#include <mha/layer/stage.hpp>
#include <mha/tensor/tensor.hpp>

#include <array>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace mha {

class KeptWeights;

/// A tensor seen as (B, H, T, keys): stride 0 where it is broadcast. Covers keys [first_key,
/// first_key + keys).
struct Broadcast {
  ///@{
  /// The numbers, where they begin and how far they reach, and what messages call them.
  Tensor tensor;
  std::array<std::size_t, 4> strides{}; ///< in elements
  std::size_t first_key = 0, keys = 0;
  std::string origin;
  std::string name; ///< of the tensor that it was made of: "mask", "key_padding_mask"
  ///@}

  /// Element (b, h, t, first_key); the next key is strides[3] further.
  template <class T> const T* row(std::size_t b, std::size_t h, std::size_t t) const {
    return tensor.as<T>().data() + b * strides[0] + h * strides[1] + t * strides[2];
  }
};

/// The tensors of a layer; each is a row of the table in names.cpp, with the shapes that it may
/// have and how it is stored here. One that is absent is empty().
struct LayerTensors {
  ///@{
  /// By the names of mha-inspect-formats(5).
  Tensor X;                  ///< B, T, d_model
  Tensor X_k, X_v;           ///< B, S, d_in; empty: X itself
  Tensor W_q, W_k, W_v, W_o; ///< (in, out), heads side by side
  Tensor b_q, b_k, b_v, b_o;
  Tensor norm_weight, norm_bias; ///< d_model
  /// d_k; heads, d_k: each head its own; or the whole projection's width: over all heads.
  Tensor q_norm_weight, k_norm_weight;
  Tensor q_norm_bias, k_norm_bias; ///< as the weights; for QkNorm::layer
  Tensor v_norm_weight, head_norm_weight; ///< likewise, RMS: of values, and of heads' results
  Tensor W_gate, b_gate;           ///< d_model, H · d_v or H: a number an element, or a head
  /// T, or 3, T for mrope: rotary positions of the tokens, f64; empty: offset + 0 … T − 1
  Tensor positions;
  Tensor rope_short_factor, rope_long_factor; ///< rope_dims / 2, f64: longrope's divisors
  /// Latent attention (DeepSeek): c_q = norm(x W_c_q), c_kv = norm(x W_c_kv), k_pe = x W_k_pe. W_q
  /// multiplies c_q; W_k and W_v c_kv, and W_k has zeros in the columns of the shared part.
  Tensor W_c_q, W_c_kv, W_k_pe; ///< d_model, r_q; d_model, r_kv; d_model, d_pe
  Tensor b_c_q, b_c_kv, b_k_pe;
  Tensor c_q_norm_weight, c_kv_norm_weight; ///< r_q; r_kv
  Tensor k_past, v_past;                    ///< B, H_kv, past, d
  Tensor k_extra, v_extra;                  ///< H_kv · d
  Tensor sinks;                             ///< H
  Tensor relative_bias;                     ///< buckets, H: T5's position bias
  Tensor relative_key; ///< 2M − 1, d_k: a vector for every distance from −(M − 1) on (Shaw et al.)
  ///@}
};

/// What a module of the layer's file returns, where that is other than one stage.
struct ModuleResult {
  ///@{
  /// The module's last word, "query_key_value", and the stages whose columns it returns side by
  /// side, or side by side within each of `groups` groups of heads; 0: as qkv_order has them.
  std::string module;
  std::vector<Stage> stages;
  std::size_t groups = 1;
  /// A stage is the module's result times a factor that its weight has here.
  double factor = 1;
  std::string factor_name; ///< "attention_value_scale"
  ///@}
};

/// What else decides the numbers of a layer, and what they are called.
struct LayerFacts {
  ///@{
  /// Sizes, settings, masks, stages that are given, and labels.
  DType dtype = DType::f32; ///< of every tensor but masks that block, which are bool
  Dims dims;
  Settings settings;

  std::vector<Broadcast> added;   ///< float masks
  std::vector<Broadcast> blocked; ///< bool, true = may not attend
  std::vector<Broadcast> bias;    ///< position bias, at most one
  std::vector<std::size_t>
      relative_buckets; ///< of distances 0 … relative_max_distance (see relative_bucket)
  std::vector<std::size_t> kv_lengths; ///< valid keys per batch, or empty

  /// Of a batch of texts, the tokens of each that are not padding: the others are neither computed
  /// nor attended to, are shown as zeros, and count in no measure. Empty: all are.
  std::vector<std::size_t> lengths;

  /// Of a layer cut out of a batch (first_tokens.hpp): which of its items item 0 is, for messages.
  std::size_t first_item = 0;

  /// B, T, T, f64: what the layers before leave of each token, for the rollout; empty: the layer is
  /// the first, or by itself, unless `misses_rollout`.
  Tensor rollout_before;
  bool misses_rollout = false; ///< there are layers before, whose rollout was not computed

  std::vector<std::size_t> kv_heads; ///< each query head's key/value head; empty: in groups

  /// Stages that are given instead of computed. Stages with heads and tokens (q … head_out) are
  /// packed as B, T, H · d; the others have their shape, with B in front.
  std::array<Tensor, stage_count> given;
  StageSet given_set;
  Patches patches; ///< of stages, while they are computed

  std::shared_ptr<const TransformerBlock>
      block;                             ///< the rest of the block in a whole model, or null
  std::shared_ptr<const ModelEnds> ends; ///< instead of a layer: the model's embedding and end
  std::shared_ptr<KeptWeights>
      kept; ///< packed forms of a model's weights, for its next pass; or null

  std::vector<std::string> tokens, key_tokens; ///< labels, T and S_all; empty: none
  /// Labels of each batch item where every item is another text; empty: the ones above are all
  /// items'. With them, the ones above are item 0's.
  ItemLabels item_tokens, item_key_tokens;

  std::vector<ModuleResult> results; ///< of modules of the layer's file, for references

  /// Where there is no X: what could be it, or how to give one, for messages ("; X, (T, 64), …").
  Message missing_X;

  ///@}
};

/// A layer. Every tensor is contiguous and in the layer's dtype; one that is absent is the neutral
/// element: no bias is zero, no weight the identity.
struct MHA_API Layer : LayerTensors, LayerFacts {
  ///@{
  /// The labels of a batch item; empty: none.
  const std::vector<std::string>& tokens_of(std::size_t batch) const {
    return item_tokens.empty() ? tokens : item_tokens[batch];
  }
  const std::vector<std::string>& key_tokens_of(std::size_t batch) const {
    return item_key_tokens.empty() ? key_tokens : item_key_tokens[batch];
  }

  ///@}
  /// Tokens of a batch item that are not padding.
  std::size_t length_of(std::size_t batch) const {
    return lengths.empty() ? dims.T : lengths[batch];
  }
  /// The type in which observers get a stage.
  DType dtype_of(Stage stage) const { return is_derived(stage) ? DType::f64 : dtype; }
  /// Whether a stage is given instead of computed.
  bool has_given(Stage stage) const { return contains(given_set, stage); }
  /// The number that `scaled` multiplies by.
  double scale() const;
  /// The rotary position of the first current token, where no positions are given.
  std::int64_t first_position() const;
  /// How far the causal diagonal is shifted: query t may see key positions ≤ t + offset.
  std::ptrdiff_t causal_offset(std::size_t batch) const;
  /// What the scores of query t are multiplied by beside the scale: 1 + β ln(1 + ⌊(p + offset) /
  /// length⌋) at its position p (Llama 4); 1 without a temperature.
  double temperature_of(std::size_t t) const;
  /// The position of query t among the keys, for windows and ALiBi.
  std::ptrdiff_t query_position(std::size_t batch, std::size_t t) const;

  /// The shape of a stage as users see it: batch axis where there is one; transposed in `columns`.
  Shape shape_of(Stage stage) const;

  /// This layer with another tensor: an input, a weight, a mask or a bias by its canonical name, or
  /// a stage, which then replaces its computation (mha::run(layer.with("weights", patched))). The
  /// tensor must have the shape of the one that it replaces, or shape_of(stage). Throws Error for
  /// another shape, an unknown name, and a stage that the layer does not have.
  Layer with(std::string_view tensor_or_stage, const Tensor& tensor) const;
  /// The same of a stage.
  Layer with(Stage stage, const Tensor& tensor) const { return with(name_of(stage), tensor); }
};

/// Whether queries and keys are normalised after their rotation, not before.
bool norms_after_rotation(const Layer& layer);

/// The last step of a head by itself, which W_o multiplies: gated, head_norm or head_out.
Stage last_of_heads(const Layer& layer);
/// Whether heads' results are normalised over more than one head's numbers.
bool norms_heads_together(const Layer& layer);

/// Of a stage whose columns are those of a token's chosen experts side by side, how many experts
/// they are; 0 of any other stage. Users see such a stage as (T, n, columns of one).
std::size_t experts_side_by_side(const Layer& layer, Stage stage);

/// The key/value head that query head h reads: floor(h · H_kv / H), unless the layer lists
/// its own.
inline std::size_t kv_head_of(const Layer& layer, std::size_t h) {
  return layer.kv_heads.empty() ? h * layer.dims.H_kv / layer.dims.H : layer.kv_heads[h];
}

} // namespace mha
