#pragma once
// Changes with a number that may be fitted.

#include <mha/diagnose/hypotheses/change.hpp>

#include <optional>

namespace mha {

/// Multiplies the scores by another number. `shown` is the value of the setting, `expression` the
/// text for messages.
Change scale_change(const Layer& layer, std::string id, double scale, std::string_view shown,
                    std::string_view expression);

/// A common scale and its expression: "1/√d_k".
struct NamedScale {
  double value;
  std::string name;
};
/// The first common scale within the relative distance `near` of a fitted one, if any.
std::optional<NamedScale> named_scale(const Layer& layer, double scale, double near);

/// Rotates with another base.
Change rope_base_change(const Layer& layer, double base);
/// Divides the positions by another factor, as linear scaling does.
Change rope_factor_change(const Layer& layer, double factor);

enum class RopeSide : std::uint8_t { both, q, k };
/// Moves the positions of q, k or both by a number.
Change rope_offset_change(const Layer& layer, RopeSide side, std::int64_t by);

/// Wrong positions of a decoder with a cache.
enum class Decoded : std::uint8_t {
  high,    ///< positions one too high
  low,     ///< one too low
  zero,    ///< position 0 for each
  restart, ///< counted from 0 again
  still,   ///< the position of the last token before them
};
inline constexpr Decoded all_decoded[]{Decoded::high, Decoded::low, Decoded::zero, Decoded::restart,
                                       Decoded::still};
/// Gives such positions to the tokens from `first` on.
Change rope_decoded_change(const Layer& layer, Decoded how, std::size_t first);

/// Lets a query see its own key and `left` keys before it.
Change window_change(const Layer& layer, std::int64_t left);

/// Ways in which the tokens from `first` on may see other keys if a text is computed in chunks with
/// a cache. Only for causal layers without past keys; else empty.
std::vector<Change> chunk_changes(const Layer& layer, std::size_t first);
/// Lets the first `tokens` tokens see each other, as a prefix that is not generated does.
std::vector<Change> prefix_changes(const Layer& layer, std::size_t tokens);

/// Adds slopes[h] · (key − query) to head h in place of the layer's ALiBi; `description` names the
/// slopes.
Change alibi_slopes_change(const std::vector<double>& slopes, const std::string& description);

/// cap · tanh(scaled / cap) with another cap than the layer's.
Change softcap_change(const Layer& layer, double cap);

/// min(max(a, −limit), limit) of q, k and v with another limit than the layer's.
Change clip_change(const Layer& layer, double limit);

/// Adds a number to the denominator of the softmax: to exponentials of scores minus the row's
/// maximum
/// (`after_shift`), or of the scores themselves.
Change denominator_change(double added, bool after_shift);

/// parts.joined: ways to join softmaxes of parts of this many keys wrongly; empty if that is all.
std::vector<Change> joined_parts_changes(std::size_t keys, std::size_t size);

/// Dropout with an estimated p, if the reference's numbers are ours / (1 − p) or 0; else nothing.
/// Both have the form of Layer::given; `drops` must hold for the stage.
std::optional<Change> dropout_change(Stage stage, const Tensor& ours, const Tensor& theirs);

/// Whether training applies dropout to this stage: weights, the embedding, the results of attention
/// and of the feed-forward.
bool drops(Stage stage);

/// x σ(β x), whose β some models learn; nothing if the feed-forward has more steps.
std::optional<Change> swish_change(const Layer& layer, double beta);

/// embed.scale: multiplies the token embeddings by this factor in place of the model's own. `model`
/// must have an embedding and outlive the change.
Change embed_scale_change(const ModelAround& model, double factor);

/// The terms of a block's sums that are multiplied by a number: results, the stream, or everything.
enum class Scaled : std::uint8_t { both, attention, feed_forward, stream, sums };
inline constexpr Scaled all_scaled[]{Scaled::both, Scaled::attention, Scaled::feed_forward,
                                     Scaled::stream, Scaled::sums};

/// block.residual.scaled with a factor, for a layer in a block.
Change scaled_change(const Layer& layer, Scaled which, double factor);

} // namespace mha
