#pragma once
// Ablation of the parts of a model: each head, each layer's attention and each
// feed-forward is taken out of the run of a text, and what follows is computed again.

#include <mha/load/edit.hpp>
#include <mha/model/run.hpp>
#include <mha/model/token_of_texts.hpp>
#include <mha/observe/prediction_rows.hpp>
#include <mha/tensor/mean_spread.hpp>

#include <array>
#include <functional>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

namespace mha {

class StageMeans;

/// The replacement of a part that is taken out.
enum class Ablation : std::uint8_t {
  zero,     ///< head_out = 0, so that b_o stays; mlp_out = 0, its bias too
  mean,     ///< its mean over all positions of all texts, without padding
  resample, ///< the same position of the next text
};

struct EffectsRequest {
  std::vector<TextPosition> places; ///< of the predictions
  /// Places that are taken out together, besides each single part ("layers.1.head_out[0,3]").
  std::vector<StageEdit> set;
  Ablation ablation = Ablation::zero;
  /// For Ablation::mean: the means over all texts (add_to_means); null: over these texts.
  std::shared_ptr<const StageMeans> means;
  /// For Ablation::resample: for each text the one whose values replace its own; null: the next
  /// one, cyclically.
  std::shared_ptr<const TextLayers> next;
  /// Positions of the next text are counted from both ends; one that it does not reach keeps its
  /// own value. Else both have one length.
  bool align_end = false;
  std::size_t first_text = 0; ///< what messages, `answer` and `versus` count texts from
  TokenOfTexts answer;  ///< whose logit is followed; none: the clean run's most probable token
  TokenOfTexts versus;  ///< its logit is subtracted
  bool centre = false;  ///< the vocabulary's mean logit is subtracted
  bool experts = false; ///< each expert of mixtures is a part, too; for Ablation::zero
  std::size_t threads = 0;
  /// Gets the share that is done, 0 to 1, after each part.
  std::function<void(double)> progress = {};

  ///@{
  /// The token at a place of that number.
  std::optional<int> answer_at(std::size_t place) const {
    return answer.of(first_text + places[place].first);
  }
  std::optional<int> versus_at(std::size_t place) const {
    return versus.of(first_text + places[place].first);
  }
  ///@}
};

/// A part of the model.
enum class Component : std::uint8_t {
  head,
  attention, ///< all heads of a layer
  mlp,
  expert, ///< of a mixture, for the tokens that chose it
  embed,
  attention_bias, ///< b_o, and the bias of a norm after attention
  final_bias,     ///< of the last norm
  head_bias,      ///< of the unembedding
  layer_add,      ///< what a layer adds of the tokens' embedding for it
  set,            ///< the places that were named, together
};
std::string_view name_of(Component part);

/// The effect of one part on one prediction, patched − clean; numbers that do not apply are none.
struct Effect {
  Component part = Component::head;
  std::optional<std::size_t> layer, head, expert;
  std::size_t batch = 0, position = 0;
  std::optional<double> kl;           ///< D(clean ‖ patched) of the next token, in nats
  std::optional<double> loss_change;  ///< of −log p of the token that follows in the text
  std::optional<double> logit_change; ///< of the answer
  /// What the part adds to the answer's logit through the last norm with the clean run's
  /// statistics, before any soft cap; the parts' sum is the logit.
  std::optional<double> direct;
  std::optional<double> change; ///< ‖Δfinal‖ / ‖final‖, of a model without a head
};

/// The name of one of an effect's numbers, and where it is.
struct EffectColumn {
  std::string_view name;
  std::optional<double> Effect::*number;
};
inline constexpr std::array<EffectColumn, 5> effect_columns{
    {{"kl", &Effect::kl},
     {"loss_change", &Effect::loss_change},
     {"logit_change", &Effect::logit_change},
     {"direct", &Effect::direct},
     {"change", &Effect::change}}};

/// Every part of every layer, in the order of layers, then the set; each at every place, in their
/// order. An expert that no token chose has effects of 0. Nothing before the layer of a part is
/// computed again. Throws Error where the text is not enough for the ablation.
std::vector<Effect> effects(const TextLayers& layers, const EffectsRequest& request);

/// Adds texts to the means that parts of all texts are replaced by, and the places of the set.
void add_to_means(const TextLayers& texts, const EffectsRequest& request, StageMeans& means);

/// Throws Error where a text and the next, cyclically, differ in length: resampling takes the same
/// position of it.
void require_equal_lengths(const std::vector<std::size_t>& lengths);

/// The mean of each part's effects over predictions, and their spread; a prediction without a
/// number counts for the others alone.
class EffectMeans {
public:
  /// One part's name, and what its numbers are so far, in the order of effect_columns.
  struct Spreads {
    Effect part;
    std::array<MeanSpread, effect_columns.size()> values;
  };

  EffectMeans() = default;
  /// Goes on from what parts() was.
  explicit EffectMeans(std::vector<Spreads> parts) : parts_(std::move(parts)) {}

  /// Adds effects of the same parts, of any texts, in the order of effects().
  void add(const std::vector<Effect>& effects);
  std::vector<Effect> means() const;
  /// In each number's place its standard deviation; nothing of fewer than two predictions.
  std::vector<Effect> deviations() const;
  const std::vector<Spreads>& parts() const { return parts_; }

private:
  std::vector<Effect> collected(std::optional<double> (MeanSpread::*number)() const) const;
  std::vector<Spreads> parts_;
};
/// The means of one list.
std::vector<Effect> mean_over_places(const std::vector<Effect>& effects);

} // namespace mha
