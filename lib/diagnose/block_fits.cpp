// Numbers of a block found by fitting: what its results are multiplied by before they are added.

#include <mha/diagnose/causes.hpp>
#include <mha/diagnose/hypotheses/edit.hpp>
#include <mha/diagnose/hypotheses/surroundings.hpp>
#include <mha/layer/graph.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace mha {

namespace {

enum class Results { both, attention, feed_forward };

Tensor times(const Tensor& tensor, double factor) {
  return each_number(tensor, [factor](double a) { return factor * a; });
}

/// X + c · attention(x), and behind it + c · feed_forward(x). A parallel block has one sum.
void scale_results(Layer& edited, Results which, double factor) {
  const double attention = which == Results::feed_forward ? 1 : factor,
               feed_forward = which == Results::attention ? 1 : factor;
  if (!has_step(edited, Stage::residual)) {
    const Tensor sum = sum_of(times(value_of(edited, Stage::attn_add), attention),
                              times(value_of(edited, Stage::mlp_add), feed_forward));
    give(edited, Stage::resid_post, sum_of(edited.X, sum));
    return;
  }
  if (which != Results::feed_forward)
    give(edited, Stage::residual,
         sum_of(edited.X, times(value_of(edited, Stage::attn_add), attention)));
  if (which != Results::attention)
    give(edited, Stage::resid_post,
         sum_of(value_of(edited, Stage::residual),
                times(value_of(edited, Stage::mlp_add), feed_forward)));
}

Change residual_scale_change(const Layer& layer, Results which, double factor) {
  Change change;
  change.id = "block.residual.scaled";
  const StageSet first = has_step(layer, Stage::residual) && which != Results::feed_forward
                             ? StageSet{Stage::residual}
                             : StageSet{};
  change.touches =
      which == Results::attention && first.any() ? first : first | StageSet{Stage::resid_post};
  const char* whose = which == Results::both        ? "the results of attention and feed-forward"
                      : which == Results::attention ? "attention's result"
                                                    : "the feed-forward's result";
  change.did = fmt::format("multiplies {} by {:.4g} before the sum", whose, factor);
  change.cure = "add it as it is";
  if (which == Results::both) change.cure = "add them as they are";
  change.edit = [](Layer&) {};
  change.edit_rows = [which, factor](Layer& edited) { scale_results(edited, which, factor); };
  change.fitted = change.rare = true;
  return change;
}

/// Σ a b and Σ b b over finite numbers of a = theirs − without, b = with − without.
double projection(const Tensor& theirs, const Tensor& with, const Tensor& without) {
  double product = 0, square = 0;
  for (std::size_t i = 0; i < theirs.count(); ++i) {
    const double base = value_at(without, i), a = value_at(theirs, i) - base,
                 b = value_at(with, i) - base;
    if (std::isfinite(a) && std::isfinite(b)) product += a * b, square += b * b;
  }
  return square > 0 ? product / square : 1;
}

} // namespace

/// Of a sum of one result the factor is a projection; where the sum behind both is all that there
/// is, it is refined from there: each round projects on the difference that a small step makes.
void CauseSearch::fit_residual_scale(Trials& trials, Changes& candidates) {
  if (!layer_.block || layer_.block->shape == BlockShape::post) return;
  constexpr int rounds = 12;
  constexpr double step = 1e-3, least = 1.0 / 64, most = 64, none = 1e-3;
  const Tensor& theirs = trials.target().theirs;
  for (const Results which : {Results::both, Results::attention, Results::feed_forward}) {
    if (which == Results::attention && trials.target().stage == Stage::resid_post &&
        !has_step(layer_, Stage::residual))
      continue;
    double factor = 1;
    for (int i = 0; i < rounds; ++i) {
      const Change here = residual_scale_change(layer_, which, factor),
                   there = residual_scale_change(layer_, which, factor * (1 + step));
      if (!trials.concerns(here)) break;
      const double by =
          step * factor * projection(theirs, trials.value({&there}), trials.value({&here}));
      if (!std::isfinite(by)) break;
      factor = std::clamp(factor + by, least, most);
      if (std::fabs(by) < 1e-7 * factor) break;
    }
    if (std::fabs(factor - 1) < none || factor == least || factor == most) continue;
    candidates.push_back(keep(residual_scale_change(layer_, which, factor)));
  }
}

} // namespace mha
