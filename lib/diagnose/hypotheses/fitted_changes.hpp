#pragma once
// Changes that take a number, which may be fitted.

#include <mha/diagnose/hypotheses/change.hpp>

#include <optional>

namespace mha {

/// The scores are multiplied by another number; `shown` is what the setting takes, `expression` its
/// words.
Change scale_change(const Layer& layer, std::string id, double scale, std::string_view shown,
                    std::string_view expression);

/// A scale that people take, and its expression: "1/√d_k".
struct NamedScale {
  double value;
  std::string name;
};
/// The first that is as `near` a fitted one, relative to it; nothing where none is.
std::optional<NamedScale> named_scale(const Layer& layer, double scale, double near);

/// The angles come from another base.
Change rope_base_change(const Layer& layer, double base);
/// The positions are divided by another factor, as linear scaling does.
Change rope_factor_change(const Layer& layer, double factor);

enum class RopeSide : std::uint8_t { both, q, k };
/// Positions of q, k or both that are off by a number.
Change rope_offset_change(const Layer& layer, RopeSide side, std::int64_t by);

/// What a decoder with a cache gets wrong from one token on.
enum class Decoded : std::uint8_t {
  high,  ///< positions one too high
  low,   ///< one too low
  zero,  ///< position 0 for each
  again, ///< counted from 0 again
  still, ///< the position of the last token before them
};
inline constexpr Decoded all_decoded[]{Decoded::high, Decoded::low, Decoded::zero, Decoded::again,
                                       Decoded::still};
/// The tokens from `first` on have such positions.
Change rope_decoded_change(const Layer& layer, Decoded how, std::size_t first);

/// A query sees its own key and `left` before it.
Change window_change(const Layer& layer, std::int64_t left);

/// Of a causal layer without past keys, whose first `first` tokens are computed as they should be:
/// what those behind may see of the keys instead. Of other layers, none.
std::vector<Change> chunk_changes(const Layer& layer, std::size_t first);
/// The first `tokens` tokens see each other, as a prefix that is no text to be continued does.
std::vector<Change> prefix_changes(const Layer& layer, std::size_t tokens);

/// Adds slopes[h] · (key − query) to head h, in place of the layer's ALiBi; `words`: the slopes.
Change alibi_slopes_change(const std::vector<double>& slopes, const std::string& words);

/// cap · tanh(scaled / cap): another cap than the layer's, or one where the layer has none.
Change softcap_change(const Layer& layer, double cap);

/// min(max(a, −limit), limit) of q, k and v: another limit than the layer's, or one where the layer
/// has none.
Change clip_change(const Layer& layer, double limit);

/// The reference's numbers are ours / (1 − p) or 0, p estimated; nothing if they are not. Both in
/// the form of Layer::given; the stage is one of those of `drops`.
std::optional<Change> dropout_change(Stage stage, const Tensor& ours, const Tensor& theirs);

/// Whether models in training drop numbers of this stage: weights, the embedding, the results of
/// attention and of the feed-forward.
bool drops(Stage stage);

/// x σ(β x), whose β some models learn; nothing for a layer whose feed-forward has more steps.
std::optional<Change> swish_change(const Layer& layer, double beta);

/// embed.scale: the tokens' rows times a factor, in place of the model's own. `model` has an
/// embedding, and outlives the change.
Change embed_scale_change(const ModelAround& model, double factor);

/// What is multiplied by one number before each sum: results, the stream, or all that is summed.
enum class Scaled : std::uint8_t { both, attention, feed_forward, stream, sums };
inline constexpr Scaled all_scaled[]{Scaled::both, Scaled::attention, Scaled::feed_forward,
                                     Scaled::stream, Scaled::sums};

/// block.residual.scaled, of a layer in a block, by a factor.
Change scaled_change(const Layer& layer, Scaled which, double factor);

} // namespace mha
