#include <mha/model/effects.hpp>

#include <mha/model/ablations.hpp>
#include <mha/model/direct_effect.hpp>
#include <mha/model/independent_passes.hpp>
#include <mha/model/predict.hpp>
#include <mha/model/weighted_experts.hpp>
#include <mha/system/parallel.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <set>
#include <tuple>

namespace mha {

namespace {

/// The clean prediction at one place, which patched ones are compared with.
class Comparison {
public:
  Comparison(const Texts& run, const EffectsRequest& request, const PredictionRow& clean,
             std::size_t place, bool has_head)
      : request_(request), versus_(request.versus_at(place)) {
    if (!has_head) {
      final_ = clean.in_double();
      return;
    }
    predicted_.emplace(clean);
    const std::optional<int> answer = request.answer_at(place);
    answer_ = answer ? static_cast<std::size_t>(*answer) : clean.top();
    logit_ = logit_of(clean);
    next_ = next_token_at(run, request.places[place]);
    if (next_) next_logit_ = clean.at(*next_);
  }

  std::size_t answer() const { return answer_; }

  void compare(const PredictionRow& patched, Effect& effect) const {
    if (!predicted_) {
      const std::vector<double> row = patched.in_double();
      double change = 0, norm = 0;
      for (std::size_t i = 0; i < final_.size(); ++i) {
        change += (row[i] - final_[i]) * (row[i] - final_[i]);
        norm += final_[i] * final_[i];
      }
      effect.change = std::sqrt(change / norm);
      return;
    }
    const Distribution::Difference difference = predicted_->to(patched);
    effect.kl = difference.divergence;
    if (next_)
      effect.loss_change =
          predicted_->log_p(next_logit_) - (patched.at(*next_) - difference.log_sum);
    effect.logit_change = logit_of(patched) - logit_;
  }

private:
  double logit_of(const PredictionRow& row) const {
    double logit = row.at(answer_);
    if (versus_) logit -= row.at(static_cast<std::size_t>(*versus_));
    if (!request_.centre) return logit;
    double sum = 0;
    for (const double z : row.in_double()) sum += z;
    return logit - sum / static_cast<double>(row.width());
  }

  const EffectsRequest& request_;
  std::optional<int> versus_;
  std::vector<double> final_;             ///< of a model without a head
  std::optional<Distribution> predicted_; ///< of the clean run
  std::size_t answer_ = 0;
  double logit_ = 0, next_logit_ = 0; ///< of the answer; of the token that follows
  std::optional<std::size_t> next_;
};

/// Throws Error where the token that is subtracted is the answer of a lone text, wherever it is
/// predicted.
void require_other_answer(const Texts& run, const std::vector<Comparison>& at, int versus) {
  const auto is_itself = [&](const Comparison& one) {
    return one.answer() == static_cast<std::size_t>(versus);
  };
  if (run.lengths().size() == 1 && std::ranges::all_of(at, is_itself))
    fail("<versus> '{}' is the answer itself, so the difference of the two logits is always 0; "
         "give an <answer> and a <versus> that differ",
         run.plain(versus));
}

/// The comparisons of all places.
std::vector<Comparison> comparisons(const Texts& run, const EffectsRequest& request,
                                    const PredictionRows& clean) {
  const bool has_head = run.model().head().present();
  std::vector<Comparison> at;
  for (std::size_t i = 0; i < request.places.size(); ++i) {
    require_logits_of(run.model(), request.answer_at(i), request.versus_at(i));
    at.emplace_back(run, request, clean[i], i, has_head);
  }
  if (request.versus && has_head && !at.empty())
    require_other_answer(run, at, *request.versus_at(0));
  return at;
}

/// Whether attention adds a bias to the stream, beside its heads: b_o, or that of a norm after it.
bool adds_bias(const Layer& layer) {
  return !layer.b_o.empty() || !layer.block->post_attention_norm.bias.empty();
}

/// Multiplies what each layer adds by the factors of the stream from that layer on (Gemma 4).
void scale_direct(std::vector<Effect>& list, std::vector<double> factors) {
  for (std::size_t n = factors.size(); n-- > 1;) factors[n - 1] *= factors[n];
  for (Effect& effect : list)
    if (effect.direct && (effect.layer || effect.part == Component::embed))
      *effect.direct *= factors[effect.layer.value_or(0)];
}

/// Throws Error where experts are asked for that the model does not have, or that the ablation does
/// not leave out.
void require_experts(const TextLayers& layers, const EffectsRequest& request) {
  if (!request.experts) return;
  if (request.ablation != Ablation::zero) fail("experts can only be left out: <ablate> zero");
  for (std::size_t n = 0; n < layers.count(); ++n)
    if (layers.sized(n).block->mixture) return;
  fail("<experts>: no layer of this model has any");
}

/// The last stream of a run without a part, computed with so many threads.
using StreamWithout = std::function<Tensor(std::size_t)>;
/// A run without a part, and where the part's effects begin in the list.
struct PassWithout {
  std::size_t first = 0;
  StreamWithout stream;
};

/// The parts of a model, each with its effects at every place.
class PartList {
public:
  PartList(const EffectsRequest& request, const DirectEffects& direct,
           const std::vector<Comparison>& at)
      : request_(request), direct_(direct), at_(at) {}

  /// Adds a part; `index`: of a head, or of an expert. No stream: it has a direct effect alone.
  void add(Component part, std::optional<std::size_t> layer = {},
           std::optional<std::size_t> index = {}, StreamWithout stream = {}) {
    const std::size_t first = list_.size();
    list_.resize(first + at_.size());
    parallel_for(at_.size(), request_.threads, [&](std::size_t i) {
      Effect& effect = list_[first + i];
      effect.part = part, effect.layer = layer;
      (part == Component::expert ? effect.expert : effect.head) = index;
      std::tie(effect.batch, effect.position) = request_.places[i];
      effect.direct = direct_.of(part, index, i);
    });
    if (stream) passes_.push_back({first, std::move(stream)});
  }

  /// Adds a part without which the run is the clean one.
  void add_idle(Component part, std::size_t layer, std::size_t index, const PredictionRows& clean) {
    add(part, layer, index);
    for (std::size_t i = 0; i < at_.size(); ++i)
      at_[i].compare(clean[i], list_[list_.size() - at_.size() + i]);
  }

  /// The effects, each run without a part compared where it is computed: all rows are T ×
  /// vocabulary numbers. What a layer adds directly is multiplied by the stream's `factors`.
  std::vector<Effect> compared(const TextLayers& layers, std::vector<double> factors) && {
    scale_direct(list_, std::move(factors));
    visit_passes(layers,
                 {passes_.size(),
                  [&](std::size_t r, std::size_t threads) { return passes_[r].stream(threads); },
                  request_.places, request_.threads, request_.progress},
                 [&](std::size_t r, std::size_t i, const PredictionRow& patched) {
                   at_[i].compare(patched, list_[passes_[r].first + i]);
                 });
    return std::move(list_);
  }

private:
  const EffectsRequest& request_;
  const DirectEffects& direct_;
  const std::vector<Comparison>& at_;
  std::vector<Effect> list_;
  std::vector<PassWithout> passes_;
};

} // namespace

std::string_view name_of(Component part) {
  constexpr std::array<std::string_view, 10> names{
      "head",           "attention",  "mlp",       "expert",    "embed",
      "attention_bias", "final_bias", "head_bias", "layer_add", "set"};
  return names[static_cast<std::size_t>(part)];
}

std::vector<Effect> effects(const TextLayers& layers, const EffectsRequest& request) {
  require_experts(layers, request);
  const Ablations ablations(layers, request);
  const Texts& run = layers.texts();
  require_finite_predictions(run.model(), ablations.clean_rows(), request.places,
                             request.first_text);
  std::vector<Comparison> at = comparisons(run, request, ablations.clean_rows());
  DirectEffects direct(ablations.ends(), request, [&](std::size_t i) { return at[i].answer(); });

  // First, since it throws for an invalid place.
  Tensor without_set;
  if (!request.set.empty()) without_set = ablations.stream_without_set();
  PartList parts(request, direct, at);
  std::vector<double> factors;
  for (std::size_t n = 0; n < layers.count(); ++n) {
    const Layer layer = ablations.layer(n);
    std::shared_ptr<const ChosenByTokens> choice; // of the clean run, for all runs of the layer
    if (request.experts && layer.block->mixture)
      choice = std::make_shared<const ChosenByTokens>(layer, request.threads);
    direct.enter(layer, choice.get());
    factors.push_back(layer.block->stream_scale);
    if (n == 0 && direct.known()) parts.add(Component::embed);
    for (std::size_t h = 0; h < layer.dims.H; ++h)
      parts.add(Component::head, n, h, [&ablations, n, h](std::size_t threads) {
        return ablations.stream_without_heads(n, {h}, threads);
      });
    parts.add(Component::attention, n, {}, [&ablations, n](std::size_t threads) {
      return ablations.stream_without_heads(n, {}, threads);
    });
    if (direct.known() && adds_bias(layer)) parts.add(Component::attention_bias, n);
    if (layer.block->has_feed_forward())
      parts.add(Component::mlp, n, {}, [&ablations, n](std::size_t threads) {
        return ablations.stream_without(n, Stage::mlp_out, threads);
      });
    if (layer.block->supplement.present())
      parts.add(Component::layer_add, n, {}, [&ablations, n](std::size_t threads) {
        return ablations.stream_without(n, Stage::layer_add, threads);
      });
    const std::set<std::size_t> chosen = choice ? choice->chosen() : std::set<std::size_t>();
    for (std::size_t e = 0; choice && e < layer.dims.E; ++e)
      if (!chosen.contains(e))
        parts.add_idle(Component::expert, n, e, ablations.clean_rows());
      else
        parts.add(Component::expert, n, e, [&ablations, n, e, choice](std::size_t threads) {
          return ablations.stream_with_weights(n, choice->weights_without(e), threads);
        });
  }
  for (Component part : {Component::final_bias, Component::head_bias})
    if (direct.known()) parts.add(part);
  if (!request.set.empty())
    parts.add(Component::set, {}, {}, [&](std::size_t) { return without_set; });
  return std::move(parts).compared(layers, std::move(factors));
}

void add_to_means(const TextLayers& texts, const EffectsRequest& request, StageMeans& means) {
  const std::vector<StageEdit> set = counted_set(request.set, texts.count());
  means.add(
      texts, [&](const Layer& layer, std::size_t n) { return ablated_stages(set, layer, n); },
      request.threads);
}

void require_equal_lengths(const std::vector<std::size_t>& lengths) {
  for (std::size_t b = 1; b < lengths.size(); ++b)
    if (lengths[b] != lengths[0])
      fail("<ablate> resample takes the same position of the next text, and text 0 has {}, text "
           "{} has {}; give texts of equal lengths, or <align> end to count positions from the end",
           counted(lengths[0], "tokens"), b, lengths[b]);
}

void EffectMeans::add(const std::vector<Effect>& effects) {
  std::size_t at = 0;
  const auto is_of = [&](const Effect& one) {
    return at < parts_.size() && parts_[at].part.part == one.part &&
           parts_[at].part.layer == one.layer && parts_[at].part.head == one.head &&
           parts_[at].part.expert == one.expert;
  };
  for (const Effect& one : effects) {
    while (at < parts_.size() && !is_of(one)) ++at; // the next part's
    if (at == parts_.size()) {
      Effect name;
      name.part = one.part, name.layer = one.layer, name.head = one.head;
      name.expert = one.expert;
      parts_.push_back({name, {}});
    }
    for (std::size_t k = 0; k < effect_columns.size(); ++k)
      if (const std::optional<double>& number = one.*effect_columns[k].number)
        parts_[at].values[k].add(*number);
  }
}

std::vector<Effect> EffectMeans::collected(std::optional<double> (MeanSpread::*number)()
                                               const) const {
  std::vector<Effect> list;
  for (const Spreads& one : parts_) {
    Effect& to = list.emplace_back(one.part);
    for (std::size_t k = 0; k < effect_columns.size(); ++k)
      to.*effect_columns[k].number = (one.values[k].*number)();
  }
  return list;
}
std::vector<Effect> EffectMeans::means() const {
  return collected(&MeanSpread::mean);
}
std::vector<Effect> EffectMeans::deviations() const {
  return collected(&MeanSpread::deviation);
}

std::vector<Effect> mean_over_places(const std::vector<Effect>& effects) {
  EffectMeans all;
  all.add(effects);
  return all.means();
}

} // namespace mha
