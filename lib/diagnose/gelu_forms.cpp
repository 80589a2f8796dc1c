#include <mha/diagnose/gelu_forms.hpp>

#include <mha/compare/diff.hpp>
#include <mha/diagnose/hypotheses/edit.hpp>
#include <mha/diagnose/thresholds.hpp>
#include <mha/diagnose/trials.hpp>
#include <mha/layer/graph.hpp>
#include <mha/observe/trace.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace mha {

namespace {

/// The other form of GELU; nothing if the activation has no second form.
std::optional<Activation> other_form(Activation form) {
  switch (form) {
  case Activation::gelu:
    return Activation::gelu_tanh;
  case Activation::gelu_tanh:
  case Activation::gelu_fast:
    return Activation::gelu;
  default:
    return std::nullopt;
  }
}

const char* words_of(Activation form) {
  return form == Activation::gelu ? "GELU by erf" : "GELU by tanh";
}

Layer with_activation(Layer layer, Activation form) {
  own_block(layer).mlp.activation = form;
  return layer;
}

/// The first stage of a reference that depends on the activation.
const ReferenceStage* first_showing(const Reference& reference) {
  for (const Stage stage : {Stage::mlp_act, Stage::mlp_out, Stage::mlp_add, Stage::resid_post})
    if (const ReferenceStage* found = reference.find(stage); found && !found->in_part) return found;
  return nullptr;
}

} // namespace

void GeluForms::add(const Layer& layer, const Reference& reference, bool stream,
                    std::size_t threads) {
  for (const ReferenceStage& stage : reference.stages)
    if (stage.stage != Stage::embed && is_short(stage.stored)) half_ = stage.stored;
  if (!layer.block || !layer.block->mlp.present()) return;
  const std::optional<Activation> other = other_form(layer.block->mlp.activation);
  if (!other) return;
  form_ = layer.block->mlp.activation;
  const ReferenceStage* target = first_showing(reference);
  const auto has_whole = [&](Stage stage) {
    const ReferenceStage* found = reference.find(stage);
    return found && !found->in_part;
  };
  const bool from_input = target && target->stage != Stage::resid_post &&
                          (has_whole(Stage::mlp_x) || has_whole(Stage::mlp_pre));
  if (!target || !is_short(target->stored) || (!stream && !from_input)) return;
  // The input of the feed-forward and the stream that it is added to are computed once for both
  // forms.
  Layer own = with_reference_before(layer, target->stage, reference);
  const StageSet available = available_stages(own);
  std::vector<Stage> before, wanted{target->stage};
  for (const Stage stage : {Stage::output, Stage::attn_add, Stage::residual, Stage::mlp_x})
    if (has_step(own, stage) && contains(available, stage)) before.push_back(stage);
  wanted.insert(wanted.end(), before.begin(), before.end());
  if (!contains(available, target->stage)) return;
  const Trace kept = trace(own, wanted, {}, threads);
  Layer given = own;
  for (const Stage stage : before)
    if (!own.has_given(stage)) given = with_given(std::move(given), stage, kept.value(stage));
  const Tensor ours = kept.value(target->stage),
               moved =
                   trace(with_activation(std::move(given), *other), {target->stage}, {}, threads)
                       .value(target->stage);
  double way = 0, along = 0, square = 0;
  const std::size_t n = ours.count();
  for (std::size_t i = 0; i < n; ++i) {
    const double d = value_at(moved, i) - value_at(ours, i),
                 r = value_at(target->value, i) - value_at(ours, i);
    if (!std::isfinite(d) || !std::isfinite(r)) return;
    way += d * d, along += d * r, square += r * r;
  }
  if (!(way > 0)) return;
  const double part = along / way, noise = std::max(square - part * along, 0.0);
  if (!(noise > 0)) return;
  const double sure = way * static_cast<double>(n) / noise; // 1 / variance of `part`
  along_ += part * sure, weight_ += sure;
}

double GeluForms::spread() const {
  return weight_ > 0 ? thresholds::rounding_by_chance / std::sqrt(weight_) : HUGE_VAL;
}

GeluForms::Verdict GeluForms::verdict() const {
  if (!form_ || !half_) return Verdict::not_asked;
  if (spread() > thresholds::known_within) return Verdict::open;
  const double near = std::max(0.25, 4 * spread());
  if (std::fabs(share() - 1) < near) return Verdict::other;
  return std::fabs(share()) < near ? Verdict::own : Verdict::open;
}

std::string GeluForms::sentence() const {
  const char* const other = words_of(*other_form(*form_));
  if (verdict() == Verdict::other)
    return fmt::format("The layers' differences are within rounding, but point towards {}, where "
                       "the model has {}: {:.2f} ± {:.2f} of the way over all layers",
                       other, words_of(*form_), share(), spread());
  return fmt::format("Whether the reference has {} or {}, as the model has, cannot be decided at "
                     "{}: the two differ by less than its rounding",
                     other, words_of(*form_), name_of(*half_));
}

Change GeluForms::cause() const {
  const Activation other = *other_form(*form_);
  return {"mlp.activation", StageSet{Stage::mlp_act},
          fmt::format("uses {} in the feed-forward", words_of(other)),
          fmt::format("use {}", words_of(*form_)),
          [other](Layer& layer) { own_block(layer).mlp.activation = other; }};
}

} // namespace mha
