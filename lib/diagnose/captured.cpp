#include <mha/diagnose/captured.hpp>

#include <mha/compare/diff.hpp>
#include <mha/diagnose/agreement.hpp>
#include <mha/diagnose/hypotheses/edit.hpp>
#include <mha/diagnose/hypotheses/norms.hpp>
#include <mha/diagnose/some_tokens.hpp>
#include <mha/diagnose/thresholds.hpp>
#include <mha/layer/graph.hpp>
#include <mha/tensor/not_saved.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace mha {

namespace {

/// The steps that are confused when a model's tensors are captured: those as wide as the stream or
/// the feed-forward.
constexpr Stage confused[]{Stage::resid_pre, Stage::x,        Stage::concat,  Stage::output,
                           Stage::attn_add,  Stage::residual, Stage::mlp_x,   Stage::mlp_pre,
                           Stage::mlp_up,    Stage::mlp_act,  Stage::mlp_out, Stage::mlp_add,
                           Stage::resid_post};

struct NamedStep {
  std::string name;
  Tensor value;
};

std::vector<NamedStep> steps_of(const Layer& layer, Stage but, const Shape& shape,
                                std::size_t threads) {
  std::vector<Stage> stages;
  for (Stage stage : confused)
    if (stage != but && has_step(layer, stage) && contains(available_stages(layer), stage) &&
        given_shape(layer, stage) == shape)
      stages.push_back(stage);
  const std::vector<Tensor> values = values_of(layer, stages, threads);
  std::vector<NamedStep> steps;
  for (std::size_t i = 0; i < stages.size(); ++i)
    steps.push_back({std::string(name_of(stages[i])), values[i]});
  return steps;
}

/// ‖a + sign · b − theirs‖ / ‖theirs‖. Returns 1 early if the first numbers are far apart.
double distance_of_sum(const Tensor& a, const Tensor& b, double sign, const Tensor& theirs) {
  double apart = 0, size = 0;
  for (std::size_t i = 0; i < theirs.count(); ++i) {
    const double r = value_at(theirs, i), difference = value_at(a, i) + sign * value_at(b, i) - r;
    if (!std::isfinite(difference)) return 1;
    apart += difference * difference, size += r * r;
    if (i == thresholds::looked_at_first && apart > thresholds::far_at_first * size) return 1;
  }
  return size > 0 ? std::sqrt(apart / size) : 1;
}

std::string sum_that_is(const std::vector<NamedStep>& steps, const Tensor& theirs) {
  for (std::size_t i = 0; i < steps.size(); ++i)
    for (std::size_t j = 0; j < steps.size(); ++j) {
      if (i == j) continue;
      if (j > i &&
          distance_of_sum(steps[i].value, steps[j].value, 1, theirs) < thresholds::same_step)
        return fmt::format("{} + {}", steps[i].name, steps[j].name);
      if (distance_of_sum(steps[i].value, steps[j].value, -1, theirs) < thresholds::same_step)
        return fmt::format("{} − {}", steps[i].name, steps[j].name);
    }
  return "";
}

/// The step as saved by tools such as TransformerLens, which by default fold a norm's weight into
/// the following products and centre everything added to a stream that only LayerNorms read.
std::string processed_step(const Layer& layer, Stage stage, const Tensor& ours,
                           const Tensor& theirs, std::size_t threads) {
  const auto is = [&](const Tensor& value) {
    return agreement_of(value, theirs, 0).error < thresholds::same_step;
  };
  if (stage == Stage::x || stage == Stage::mlp_x) {
    if (stage == Stage::mlp_x && layer.block && layer.block->shape == BlockShape::post) return "";
    const std::vector<NormRow> rows = norms_of(layer, StageSet{stage});
    Norm norm = rows.empty() ? Norm{} : rows[0].of(layer);
    if (norm.weight.empty() || norm.one_plus) return "";
    norm.weight = norm.bias = {};
    Layer bare = layer;
    clear_given(bare, {stage});
    rows[0].put(bare, norm);
    return is(value_of(bare, stage, threads))
               ? fmt::format("{} without the norm's weight, which is folded into what reads it,",
                             name_of(stage))
               : "";
  }
  const bool centres = layer.settings.input_norm == InputNorm::layer;
  const bool adds = stage == Stage::resid_pre || stage == Stage::output ||
                    stage == Stage::residual || stage == Stage::mlp_out ||
                    stage == Stage::resid_post;
  return centres && adds && is(without_row_means(ours))
             ? fmt::format("{} without each row's mean, which every LayerNorm subtracts,",
                           name_of(stage))
             : "";
}

/// A copy of the rows with all columns outside [first, last) set to 0.
Tensor only_columns(const Tensor& rows, std::size_t first, std::size_t last) {
  Tensor part = copied(rows);
  const std::size_t n = rows.shape().back();
  by_precision(rows.dtype(), [&]<class T>(T) {
    const auto values = part.as_mutable<T>();
    for (std::size_t i = 0; i < values.size(); ++i)
      if (i % n < first || i % n >= last) values[i] = 0;
  });
  return part;
}

/// A tensor-parallel rank's part of a product before the sum over ranks: the result of its share of
/// the heads, or of the feed-forward's columns, with or without the bias.
std::string part_of_rank(const Layer& layer, Stage stage, const Tensor& theirs,
                         std::size_t threads) {
  if (stage != Stage::output && stage != Stage::mlp_out) return "";
  const bool attention = stage == Stage::output;
  if (attention ? layer.W_o.empty() : !layer.block || !layer.block->mlp.present()) return "";
  const Stage from = attention ? Stage::concat : Stage::mlp_act;
  const Tensor whole = value_of(layer, from, threads);
  const std::size_t n = whole.shape().back(), units = attention ? layer.dims.H : n;
  for (std::size_t ranks : {std::size_t{2}, std::size_t{4}, std::size_t{8}}) {
    if (units % ranks != 0) continue;
    for (std::size_t rank = 0; rank < ranks; ++rank)
      for (const bool with_bias : {true, false}) {
        Layer part = layer;
        give(part, from, only_columns(whole, rank * n / ranks, (rank + 1) * n / ranks));
        if (!with_bias) (attention ? part.b_o : own_block(part).mlp.out.b) = {};
        if (agreement_of(value_of(part, stage, threads), theirs, 0).error <
            thresholds::same_part_of_rank)
          return fmt::format("rank {} of {}'s part of it, before the sum over ranks,", rank, ranks);
      }
  }
  return "";
}

} // namespace

namespace {

/// Logits after a sampler: some are hidden by −∞ or the type's least number, the others are
/// unchanged.
std::string sampled_logits(const Layer& layer, const Tensor& theirs, std::size_t threads) {
  const Tensor ours = value_of(layer, Stage::logits, threads);
  if (ours.shape() != theirs.shape()) return "";
  Tensor left = copied(ours);
  std::size_t cut = 0, rows = 0;
  const std::size_t n = ours.shape().back();
  by_precision(left.dtype(), [&]<class T>(T) {
    const auto values = left.as_mutable<T>();
    for (std::size_t i = 0; i < values.size(); ++i) {
      const double saved = value_at(theirs, i);
      if (i % n == 0 && !is_not_saved(saved)) ++rows;
      if (saved > thresholds::hidden_logit || std::isnan(saved) ||
          static_cast<double>(values[i]) <= thresholds::hidden_logit)
        continue;
      values[i] = static_cast<T>(saved), ++cut;
    }
  });
  if (cut == 0 || rows == 0 || !(agreement_of(left, theirs, 0).error < thresholds::same_step))
    return "";
  return fmt::format("the logits after a sampler, which hid {:.4g} of a row's {} and left the "
                     "others unchanged (top-k, top-p, forbidden tokens),",
                     static_cast<double>(cut) / static_cast<double>(rows), n);
}

} // namespace

std::string other_step_of(const Layer& the_layer, Stage stage, const Tensor& theirs,
                          std::size_t threads) {
  if (the_layer.ends) {
    if (stage == Stage::logits) return sampled_logits(the_layer, theirs, threads);
    if (stage == Stage::embed && the_layer.ends->final.kind == InputNorm::layer &&
        the_layer.ends->embed.shape() == theirs.shape() &&
        agreement_of(without_row_means(the_layer.ends->embed), theirs, 0).error <
            thresholds::same_step)
      return "embed without each row's mean, which every LayerNorm subtracts,";
    const bool is_stream =
        stage == Stage::final && the_layer.ends->final.present() &&
        the_layer.ends->stream.shape() == theirs.shape() &&
        agreement_of(the_layer.ends->stream, theirs, 0).error < thresholds::same_step;
    return is_stream ? "the stream before the last norm" : "";
  }
  const Layer layer = plain_form(the_layer);
  const double tolerance = tolerance_of(layer.dtype);
  std::vector<NamedStep> steps = steps_of(layer, stage, theirs.shape(), threads);
  for (const NamedStep& step : steps)
    if (const Agreement found = agreement_of(step.value, theirs, tolerance);
        found.agrees || found.error < thresholds::same_step)
      return step.name;
  if (contains(available_stages(layer), stage))
    steps.push_back({std::string(name_of(stage)), value_of(layer, stage, threads)});
  if (!steps.empty() && steps.back().name == name_of(stage))
    if (const std::string processed =
            processed_step(layer, stage, steps.back().value, theirs, threads);
        !processed.empty())
      return processed;
  const std::string sum = sum_that_is(steps, theirs);
  return sum.empty() ? part_of_rank(layer, stage, theirs, threads) : sum;
}

std::string OtherStep::sentence() const {
  return fmt::format("{} was saved from another step: it is {} here", name_of(stage), is);
}

std::vector<OtherStep> saved_apart(const Layer& the_layer,
                                   const std::vector<ReferenceStage>& reference,
                                   std::size_t threads) {
  const Layer layer = plain_form(the_layer);
  const StageSet available = available_stages(layer);
  std::vector<const ReferenceStage*> known;
  std::vector<Stage> stages;
  for (const ReferenceStage& one : reference)
    if (one.stage != Stage::resid_pre && info_of(one.stage).kind == Kind::token &&
        contains(available, one.stage) && has_step(layer, one.stage))
      known.push_back(&one), stages.push_back(one.stage);
  if (known.size() < 2) return {};
  const std::vector<Tensor> ours = values_of(layer, stages, threads);
  std::vector<Tensor> theirs;
  std::vector<const ReferenceStage*> apart;
  StageSet inputs_of_agreeing; // the stages from which agreeing stages are computed
  for (std::size_t i = 0; i < known.size(); ++i) {
    const Stage stage = stages[i];
    theirs.push_back(without_padding(
        with_given(layer, stage, known[i]->value).given[index_of(stage)], stage, layer.lengths));
    const double tolerance = std::max(tolerance_of(layer.dtype), tolerance_of(known[i]->stored));
    if (agreement_of(ours[i], theirs.back(), tolerance).agrees)
      inputs_of_agreeing |= ancestors_of(layer, stage);
    else if (!known[i]->in_part)
      apart.push_back(known[i]);
  }
  std::vector<OtherStep> found;
  for (const ReferenceStage* one : apart) {
    if (!contains(inputs_of_agreeing, one->stage)) continue;
    const auto at = static_cast<std::size_t>(std::ranges::find(known, one) - known.begin());
    if (const std::string is = other_step_of(layer, one->stage, theirs[at], threads); !is.empty())
      found.push_back({one->stage, is});
  }
  return found;
}

} // namespace mha
