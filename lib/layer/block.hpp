#pragma once
// Parts around attention in a whole model: norms, feed-forward, embedding and head, as data.
// A step that a model lacks is a neutral element: no norm is the identity, no bias is zero.

#include <mha/layer/settings.hpp>
#include <mha/layer/stage.hpp>
#include <mha/tensor/tensor.hpp>

#include <memory>
#include <vector>

namespace mha {

/// The shapes of blocks; x is the stream before one, A attention, F the feed-forward, n norms.
enum class BlockShape : std::uint8_t {
  attention_only, ///< resid_post = x + A(n1 x)
  pre,            ///< residual = x + A(n1 x); resid_post = residual + F(n2 residual)
  parallel,       ///< resid_post = x + A(n1 x) + F(n2 x); with one norm, n2 is n1
  sandwich,       ///< residual = x + n2 A(n1 x); resid_post = residual + n4 F(n3 residual)
  post,           ///< residual = x + A(x), r = n1 residual; resid_post = n2(r + F(r))
  post_inside,    ///< residual = x + n1 A(x); resid_post = residual + n2 F(residual)
};

/// The activation of a feed-forward.
enum class Activation : std::uint8_t {
  identity,
  relu,       ///< max(0, x)
  silu,       ///< x σ(x)
  gelu,       ///< x ½(1 + erf(x/√2))
  gelu_tanh,  ///< ½x(1 + tanh(√(2/π)(x + 0.044715x³)))
  gelu_fast,  ///< the same with 0.7978845608 for √(2/π)
  gelu_quick, ///< x σ(1.702x)
  solu,       ///< x softmax(x), over the row
  relu2,      ///< max(0, x)²
};
/// By the name that config.json gives it ("gelu_new", "silu" …); nothing for others.
std::optional<Activation> activation_named(std::string_view name);
/// Every name that is understood, for messages.
std::string_view activation_names();

/// y = x W + b, its weight in the file's precision, mapped: converted where it is packed.
struct LinearMap {
  Tensor W; ///< (in, out), however it is stored
  Tensor b; ///< out; empty: zero

  bool present() const { return !W.empty(); }
  std::size_t in() const { return W.shape()[0]; }
  std::size_t out() const { return W.shape()[1]; }
};

/// A norm of rows. `kind` none leaves rows unchanged, affine only multiplies by weight and adds
/// bias: a batch norm in inference.
struct Norm {
  InputNorm kind = InputNorm::none;
  double eps = 1e-5;
  Tensor weight, bias;   ///< empty: 1 and 0
  bool one_plus = false; ///< times 1 + weight

  bool present() const { return kind != InputNorm::none; }
};

/// Limits inside of a gated feed-forward: the gate is at most `limit`, before its activation (as
/// GPT-OSS does) or after it (Step-3.5), the other factor within ± `limit`.
struct Clamp {
  double limit = 0; ///< 0: any number
  bool after_activation = false;

  bool present() const { return limit > 0; }
};

/// mlp_out = act(x W_in + b_in) W_out + b_out; a gated one multiplies by x W_up + b_up.
struct FeedForward {
  LinearMap in, up, out;
  Activation activation = Activation::gelu;
  Tensor product_bias; ///< added to a gated one's product (TransformerLens)
  Norm inner;          ///< of what `out` multiplies (solu_ln)
  Clamp clamp = {};

  bool present() const { return out.present(); }
  bool gated() const { return up.present(); }
};

/// How scores are made of the router's logits.
enum class RouterScore : std::uint8_t { softmax, sigmoid, sqrt_softplus, logits };
/// The score of a group of experts: the sum of its two best, or its best.
enum class GroupScore : std::uint8_t { top_two, maximum };
/// How weights are made of the chosen experts' scores: these, divided by their sum, or their
/// softmax.
enum class ExpertWeight : std::uint8_t { as_is, renormalised, softmax_chosen };

/// Which experts are chosen for a token, and with which weights.
struct Routing {
  std::size_t chosen = 1; ///< n
  RouterScore score = RouterScore::softmax;
  double softcap = 0; ///< of the logits before their score, softcap · tanh(x / softcap); 0: none
  Tensor bias;        ///< E, added to scores for choosing only; empty: none
  std::size_t groups = 1; ///< experts of the best `kept_groups` are chosen from
  std::size_t kept_groups = 1;
  GroupScore group_score = GroupScore::top_two;
  bool masked_are_zero = false; ///< scores of other groups: 0, so that one may be chosen; else −∞
  ExpertWeight weight = ExpertWeight::as_is;
  double factor = 1;         ///< of all weights
  Tensor factors;            ///< E, of each expert's weight (Gemma 4); empty: 1
  bool weighs_input = false; ///< weights multiply an expert's input, not its result (Llama 4)

  /// What multiplies an expert's weight in the end.
  double factor_of(std::size_t expert) const {
    return factors.empty() ? factor : factor * value_at(factors, expert);
  }
};

/// What an expert does between its maps.
struct ExpertForm {
  Activation activation = Activation::silu;
  Clamp clamp = {};
  bool up_plus_one = false; ///< act(gate) · (up + 1), as GPT-OSS does
};

/// A feed-forward of experts, of which a router chooses n for each token:
/// mlp_out = Σ_j weight_j · (act(x W_in + b_in) · (x W_up + b_up)) W_out + b_out, plus the shared
/// experts' result, times σ(x W_shared_gate) where there is such a gate. Gemma 4 has norms around
/// both: of the stream for the router and for the experts, of the sum and of the shared result.
struct Mixture {
  LinearMap router; ///< d_model to E
  Routing routing;
  std::vector<LinearMap> in, up, out; ///< E maps each, `up` of gated experts; read when chosen
  ExpertForm form;
  FeedForward shared; ///< experts of every token, side by side; absent: none
  LinearMap shared_gate;
  Norm router_norm, experts_norm;   ///< make router_x, experts_x; absent: those are mlp_x
  Norm norm_of_sum, norm_of_shared; ///< make experts_norm, shared_norm

  bool gated() const { return !up.empty(); }
};

/// What a layer adds of the tokens' embedding for it (Gemma 4), h being the stream with the
/// feed-forward's result: layer_add = norm((act(h W_in) · layer_embed) W_out).
struct Supplement {
  LinearMap in, out; ///< d_model to d_layer, and back
  Activation activation = Activation::gelu_tanh;
  Norm norm;

  bool present() const { return out.present(); }
};

/// A layer's surroundings. Attention's own norm is the layer's (input_norm).
struct TransformerBlock {
  BlockShape shape = BlockShape::pre;
  Norm post_attention_norm; ///< makes attn_add of output
  Norm pre_mlp_norm;        ///< makes mlp_x; in a post-norm block the norm of residual
  Norm post_mlp_norm;       ///< makes mlp_add of mlp_out
  Norm post_block_norm;     ///< makes resid_post, in a post-norm block
  FeedForward mlp;
  std::shared_ptr<const Mixture> mixture; ///< in the place of `mlp`, or null
  Supplement supplement;
  double stream_scale = 1; ///< of the stream after the block (Gemma 4's layer_scalar)

  /// Whether something follows attention: a dense feed-forward or a mixture.
  bool has_feed_forward() const { return mlp.present() || mixture; }
};

/// Whether the step is part of a layer with this block (none: of a lone layer); nothing for stages
/// that a block does not decide.
std::optional<bool> has_step_around(const TransformerBlock* block, Stage stage);

/// Where the linear map of a factorised embedding is applied: on the token's rows alone, on the
/// sum, or on what the norm makes of it.
enum class ProjectionPlace : std::uint8_t { tokens, sum, normed };

/// What enters the first block: a token's row, and what is added to it.
struct Embedding {
  Tensor tokens;    ///< vocabulary, d_model
  Tensor positions; ///< empty: none
  Tensor types;     ///< the first row is added
  std::size_t first_position = 0;
  /// RoBERTa: padding has this position, other tokens count on from the next one.
  std::optional<int> pad;
  double scale = 1; ///< of the token's row
  /// ESM: the rows of this token are zero, those of the others divided by their part of the text.
  std::optional<int> mask_token;
  Norm norm;
  LinearMap projection; ///< to d_model, of narrower tables; absent: the identity
  ProjectionPlace projection_place = ProjectionPlace::normed;

  /// d_model.
  std::size_t width() const { return projection.present() ? projection.out() : tokens.shape()[1]; }
};

/// The tokens' embeddings for each layer (Gemma 4), x being what enters the first block:
/// layer_embed = (norm(x W / √d_model) + scale · the token's row) / √2, columns of the layer.
struct LayerEmbedding {
  Tensor table;          ///< vocabulary, layers · d_layer
  double scale = 1;      ///< √d_layer in the table's precision
  LinearMap map;         ///< d_model to layers · d_layer
  Norm norm;             ///< of d_layer numbers
  std::size_t width = 0; ///< d_layer; 0: the model has none
};

/// What turns the last layer's stream into logits.
struct ModelHead {
  LinearMap dense; ///< a masked model's: then the activation and the norm
  Activation activation = Activation::identity;
  Norm norm;
  LinearMap decoder; ///< d_model to vocabulary
  double scale = 1;
  double softcap = 0; ///< 0 = none

  bool present() const { return decoder.present(); }
};

/// The ends of a whole model: what its layers start from, and what becomes of the last one's
/// stream.
struct ModelEnds {
  Tensor embed;  ///< B, T, d_model
  Tensor stream; ///< B, T, d_model: resid_post of the last layer; empty: not asked for
  Norm final;
  ModelHead head;

  bool has(Stage stage) const {
    return stage == Stage::embed ||
           (stage == Stage::final ? final.present() : stage == Stage::logits && head.present());
  }
};

} // namespace mha
