#include <mha/model/effects.hpp>

#include <mha/model/direct_effect.hpp>
#include <mha/observe/trace.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <tuple>

#include <fmt/ranges.h>

namespace mha {

namespace {

/// The clean run: each layer with its stream, and what its parts hold; and runs from a changed
/// layer on.
class Ablations {
public:
  Ablations(const TextLayers& layers, const EffectsRequest& request)
      : layers_(layers), request_(request) {
    Advance way;
    way.threads = request.threads;
    std::optional<Trace> parts;
    way.observer = [&](const Layer& layer, std::size_t) {
      parts.emplace(layer, stages_of(layer));
      return &*parts;
    };
    way.arrived = [&](const Residual& at) {
      const bool has_mlp = layer(at.layer - 1).block->mlp.present();
      clean_.push_back({parts->value(Stage::head_out), parts->value(Stage::output),
                        has_mlp ? parts->value(Stage::mlp_out) : Tensor()});
      streams_.push_back(at.x);
    };
    streams_.push_back(layers.embedded().x);
    advance(layers, {streams_.front(), 0}, layers.count(), way);
    if (request.ablation == Ablation::resample) require_texts();
    rows_ = prediction_rows(ends(), request.places, request.threads);
  }

  /// A layer with the clean stream before it; what stands behind the last.
  Layer layer(std::size_t n) const { return layers_.layer(n, streams_[n]); }
  Layer ends() const { return layers_.ends(streams_.back()); }
  const std::vector<std::vector<double>>& clean_rows() const { return rows_; }

  /// logits (or final) at the places, with heads of layer n taken out; empty: all heads.
  std::vector<std::vector<double>> without_heads(std::size_t n,
                                                 const std::vector<std::size_t>& heads) const {
    Layer changed = layer(n).with(Stage::head_out, clean_[n].head_out);
    changed.patches.add(patch_of(n, changed, Stage::head_out, clean_[n].head_out, heads));
    return rows_from(n, changed);
  }
  std::vector<std::vector<double>> without_mlp(std::size_t n) const {
    Layer changed = layer(n).with(Stage::output, clean_[n].output);
    changed.patches.add(patch_of(n, changed, Stage::mlp_out, clean_[n].mlp_out, {}));
    return rows_from(n, changed);
  }
  /// The same with all places of the set.
  std::vector<std::vector<double>> without_set() const {
    std::size_t first = layers_.count();
    for (const PatchText& place : request_.set) first = std::min(first, first_layer(place));
    Advance way;
    way.threads = request_.threads;
    way.patch = [&](Layer& layer, std::size_t n) {
      for (const PatchText& place : request_.set)
        if (place.is_of(n))
          layer.patches.add(resolve_patch(place, layer, n, [&](Stage stage, const std::string&) {
            return replacement_of(whole_stage(this->layer(n), stage, request_.threads));
          }));
    };
    const Residual last = advance(layers_, {streams_[first], first}, layers_.count(), way);
    return prediction_rows(layers_.ends(last.x), request_.places, request_.threads);
  }

private:
  struct Clean {
    Tensor head_out, output, mlp_out;
  };

  static std::vector<Stage> stages_of(const Layer& layer) {
    std::vector<Stage> kept{Stage::head_out, Stage::output};
    if (layer.block->mlp.present()) kept.push_back(Stage::mlp_out);
    return kept;
  }

  std::size_t first_layer(const PatchText& place) const {
    if (is_of_model(place.stage) || !place.names_layer())
      fail("--set {}: a stage of a layer expected: layers.N.{}", place.place, name_of(place.stage));
    if (place.layers && place.layers->second >= layers_.count())
      fail("--set {}: there is no layer {}: the layers are 0 to {}", place.place,
           place.layers->second, layers_.count() - 1);
    return place.every_layer ? 0 : place.layers->first;
  }

  /// What a stage that is taken out takes its values from, batch axis first: itself for its mean,
  /// or the next text's.
  Tensor replacement_of(const Tensor& clean) const {
    if (request_.ablation != Ablation::resample) return clean;
    Tensor next = Tensor::uninitialised(clean.dtype(), clean.shape());
    const std::size_t B = clean.shape()[0], bytes = clean.bytes() / B;
    for (std::size_t b = 0; b < B; ++b)
      std::memcpy(next.raw_mutable() + b * bytes, clean.at((b + 1) % B).raw(), bytes);
    return next;
  }

  void require_texts() const {
    const std::vector<std::size_t>& lengths = layers_.texts().lengths();
    if (lengths.size() < 2)
      fail("--ablate resample takes the next text's values, and this is one text; give several");
    for (std::size_t b = 1; b < lengths.size(); ++b)
      if (lengths[b] != lengths[0])
        fail("--ablate resample takes the same position of the next text, and text 0 has {}, text "
             "{} has {}; give texts of equal lengths",
             counted(lengths[0], "tokens"), b, lengths[b]);
  }

  /// Takes heads out of a stage of layer n, or all of it: zero, its mean, or the next text's.
  StagePatch patch_of(std::size_t n, const Layer& layer, Stage stage, const Tensor& clean,
                      const std::vector<std::size_t>& heads) const {
    PatchText place;
    place.place = name_of(stage), place.stage = stage;
    if (!heads.empty()) place.axes = {fmt::format("[{}]", fmt::join(heads, ","))};
    place.value = request_.ablation == Ablation::zero   ? "zero"
                  : request_.ablation == Ablation::mean ? "mean"
                                                        : "from the next text";
    return resolve_patch(place, layer, n, [&](Stage, const std::string&) {
      return replacement_of(with_batch_axis(layer, clean));
    });
  }

  /// From a changed layer to the model's end.
  std::vector<std::vector<double>> rows_from(std::size_t n, const Layer& changed) const {
    const Tensor stream = trace(changed, {Stage::resid_post}, {}, request_.threads)
                              .value(Stage::resid_post)
                              .reshaped(streams_[n].shape());
    Advance way;
    way.threads = request_.threads;
    const Residual last = advance(layers_, {stream, n + 1}, layers_.count(), way);
    return prediction_rows(layers_.ends(last.x), request_.places, request_.threads);
  }

  const TextLayers& layers_;
  const EffectsRequest& request_;
  std::vector<Tensor> streams_; ///< of the clean run: before each layer, and behind the last
  std::vector<Clean> clean_;
  std::vector<std::vector<double>> rows_;
};

/// What is compared at one place.
class Comparison {
public:
  Comparison(const ModelPass& run, const EffectsRequest& request, const TextPosition& place,
             const std::vector<double>& clean, bool has_head)
      : request_(request), clean_(clean), has_head_(has_head) {
    if (!has_head) return;
    log_p_ = log_softmax(clean);
    for (const double log_p : log_p_) p_.push_back(std::exp(log_p));
    answer_ = static_cast<std::size_t>(
        request.answer.value_or(static_cast<int>(std::ranges::max_element(clean) - clean.begin())));
    const auto& [batch, position] = place;
    if (run.model().causal() && position + 1 < run.lengths()[batch])
      next_ = static_cast<std::size_t>(run.ids()[batch][position + 1]);
  }

  std::size_t answer() const { return answer_; }

  void compare(const std::vector<double>& patched, Effect& effect) const {
    if (!has_head_) {
      double change = 0, norm = 0;
      for (std::size_t i = 0; i < clean_.size(); ++i) {
        change += (patched[i] - clean_[i]) * (patched[i] - clean_[i]);
        norm += clean_[i] * clean_[i];
      }
      effect.change = std::sqrt(change / norm);
      return;
    }
    const std::vector<double> log_q = log_softmax(patched);
    double kl = 0; // p is of the clean run, and taken once for all parts
    for (std::size_t i = 0; i < log_q.size(); ++i)
      if (p_[i] > 0) kl += p_[i] * (log_p_[i] - log_q[i]);
    effect.kl = kl;
    if (next_) effect.loss_change = log_p_[*next_] - log_q[*next_];
    effect.logit_change = logit_of(patched) - logit_of(clean_);
  }

private:
  double logit_of(const std::vector<double>& row) const {
    double logit = row[answer_];
    if (request_.versus) logit -= row[static_cast<std::size_t>(*request_.versus)];
    if (request_.centre) {
      double sum = 0;
      for (const double z : row) sum += z;
      logit -= sum / static_cast<double>(row.size());
    }
    return logit;
  }

  const EffectsRequest& request_;
  const std::vector<double>& clean_;
  bool has_head_;
  std::vector<double> log_p_, p_;
  std::size_t answer_ = 0;
  std::optional<std::size_t> next_;
};

} // namespace

std::string_view name_of(Contributor part) {
  switch (part) {
  case Contributor::head:
    return "head";
  case Contributor::attention:
    return "attention";
  case Contributor::mlp:
    return "mlp";
  case Contributor::embed:
    return "embed";
  case Contributor::attention_bias:
    return "attention_bias";
  case Contributor::final_bias:
    return "final_bias";
  case Contributor::head_bias:
    return "head_bias";
  case Contributor::set:
    return "set";
  }
  return "";
}

std::vector<Effect> effects(const TextLayers& layers, const EffectsRequest& request) {
  const Ablations ablations(layers, request);
  const ModelPass& run = layers.texts();
  const bool has_head = run.model().head().present();
  std::vector<Comparison> at;
  for (std::size_t i = 0; i < request.places.size(); ++i)
    at.emplace_back(run, request, request.places[i], ablations.clean_rows()[i], has_head);
  DirectEffects direct(ablations.ends(), request, [&](std::size_t i) { return at[i].answer(); });

  std::vector<Effect> list;
  const auto add = [&](Contributor part, std::optional<std::size_t> layer,
                       std::optional<std::size_t> head,
                       const std::vector<std::vector<double>>& patched) {
    for (std::size_t i = 0; i < request.places.size(); ++i) {
      Effect& effect = list.emplace_back();
      effect.part = part, effect.layer = layer, effect.head = head;
      std::tie(effect.batch, effect.position) = request.places[i];
      if (!patched.empty()) at[i].compare(patched[i], effect);
      effect.direct = direct.of(part, head, i);
    }
  };
  for (std::size_t n = 0; n < layers.count(); ++n) {
    const Layer layer = ablations.layer(n);
    direct.enter(layer);
    if (n == 0 && direct.known()) add(Contributor::embed, std::nullopt, std::nullopt, {});
    for (std::size_t h = 0; h < layer.dims.H; ++h)
      add(Contributor::head, n, h, ablations.without_heads(n, {h}));
    add(Contributor::attention, n, std::nullopt, ablations.without_heads(n, {}));
    if (direct.known() && !layer.b_o.empty()) add(Contributor::attention_bias, n, std::nullopt, {});
    if (layer.block->mlp.present())
      add(Contributor::mlp, n, std::nullopt, ablations.without_mlp(n));
  }
  for (Contributor part : {Contributor::final_bias, Contributor::head_bias})
    if (direct.known()) add(part, std::nullopt, std::nullopt, {});
  if (!request.set.empty())
    add(Contributor::set, std::nullopt, std::nullopt, ablations.without_set());
  return list;
}

namespace {
using EffectNumber = std::optional<double> Effect::*;
constexpr std::array<EffectNumber, 5> effect_numbers{
    &Effect::kl, &Effect::loss_change, &Effect::logit_change, &Effect::direct, &Effect::change};
} // namespace

void EffectMeans::add(const std::vector<Effect>& effects) {
  std::size_t at = 0;
  const auto is_of = [&](const Effect& one) {
    return at < parts_.size() && parts_[at].part.part == one.part &&
           parts_[at].part.layer == one.layer && parts_[at].part.head == one.head;
  };
  for (const Effect& one : effects) {
    while (at < parts_.size() && !is_of(one)) ++at; // the next part's
    if (at == parts_.size()) {
      Effect name;
      name.part = one.part, name.layer = one.layer, name.head = one.head;
      parts_.push_back({name, {}});
    }
    for (std::size_t k = 0; k < effect_numbers.size(); ++k)
      if (const std::optional<double>& number = one.*effect_numbers[k])
        parts_[at].values[k].add(*number);
  }
}

std::vector<Effect> EffectMeans::collected(std::optional<double> (MeanSpread::*number)()
                                               const) const {
  std::vector<Effect> list;
  for (const Spreads& one : parts_) {
    Effect& to = list.emplace_back(one.part);
    for (std::size_t k = 0; k < effect_numbers.size(); ++k)
      to.*effect_numbers[k] = (one.values[k].*number)();
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
