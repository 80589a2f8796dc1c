// Causes with a fitted number: the scale, rotary base, factor and positions, soft cap, clip,
// Swish's β, and what is added to the softmax's denominator.

#include <mha/diagnose/causes.hpp>
#include <mha/diagnose/hypotheses/edit.hpp>
#include <mha/diagnose/hypotheses/fitted_changes.hpp>
#include <mha/diagnose/thresholds.hpp>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <set>

namespace mha {

namespace {

/// The exp(u), u in [low, high], at which f(exp(u)) is smallest: the best of `steps` points,
/// refined by a golden-section search.
double minimum_of(const std::function<double(double)>& f, double low, double high, int steps) {
  double best = low, least = std::numeric_limits<double>::infinity();
  const double step = (high - low) / steps;
  for (int i = 0; i <= steps; ++i)
    if (const double u = low + i * step, error = f(std::exp(u)); error < least)
      best = u, least = error;
  const double ratio = (std::sqrt(5.0) - 1) / 2;
  double a = best - step, b = best + step;
  double c = b - ratio * (b - a), d = a + ratio * (b - a);
  double f_c = f(std::exp(c)), f_d = f(std::exp(d));
  for (int i = 0; i < 64 && b - a > 1e-13; ++i)
    if (f_c < f_d)
      b = d, d = c, f_d = f_c, c = b - ratio * (b - a), f_c = f(std::exp(c));
    else
      a = c, c = d, f_c = f_d, d = a + ratio * (b - a), f_d = f(std::exp(d));
  return std::exp((a + b) / 2);
}

/// A sink of each head, from weights or log-sum-exps that have them: of a row, what the denominator
/// is more than Σ e^score. Nothing if a head's is less.
std::optional<Change> sinks_change(const Layer& layer, const Target& target, std::size_t threads) {
  const bool of_weights = target.stage == Stage::weights;
  if (!layer.sinks.empty() || (!of_weights && target.stage != Stage::logsumexp)) return {};
  const std::optional<Tensor> sums = // B, H, T
      if_allowed([&] { return value_of(layer, Stage::logsumexp, threads); });
  if (!sums) return {};
  const Tensor& own = *sums;
  const Dims& d = layer.dims;
  const std::size_t keys = target.theirs.count() / own.count();
  std::vector<double> sinks(d.H, 0.0), rows(d.H, 0.0);
  for (std::size_t row = 0; row < own.count(); ++row) {
    const double lse = value_at(own, row);
    double sum = 0;
    for (std::size_t j = 0; j < keys; ++j) sum += value_at(target.theirs, row * keys + j);
    const double more = of_weights ? std::exp(lse) * (1 / sum - 1) : std::exp(sum) - std::exp(lse);
    if (!std::isfinite(lse) || !std::isfinite(more)) continue;
    sinks[row / d.T % d.H] += more, rows[row / d.T % d.H] += 1;
  }
  Tensor logs(layer.dtype, {d.H});
  for (std::size_t h = 0; h < d.H; ++h) {
    const double sink = std::log(sinks[h] / rows[h]);
    if (!std::isfinite(sink)) return {};
    by_precision(logs.dtype(), [&]<class T>(T) { logs.as_mutable<T>()[h] = static_cast<T>(sink); });
  }
  Change change{
      "sinks.added", StageSet{Stage::row_max, Stage::row_sum},
      fmt::format("adds a sink of each head to its softmax ({:.4g} in head 0)", value_at(logs, 0)),
      "divide by only the sum of the exponentials, or give this layer the sinks",
      [logs](Layer& edited) { edited.sinks = logs; }};
  change.fitted = true;
  return change;
}

} // namespace

void CauseSearch::add_fits(const State&, Trials& trials, Changes& candidates) {
  const auto has = [&](Stage stage) {
    Change probe;
    probe.touches = StageSet{stage};
    return trials.concerns(probe);
  };
  const Stage stage = trials.target().stage;
  if (drops(stage))
    if (std::optional<Change> dropout =
            dropout_change(stage, trials.value(), trials.target().theirs))
      candidates.push_back(keep(std::move(*dropout)));
  fit_epsilon(trials, candidates);
  if (has(Stage::scaled)) fit_scale(trials, candidates);
  if (has(Stage::capped)) fit_softcap(trials, candidates);
  fit_clip(trials, candidates);
  const bool rotates =
      layer_.settings.rope != Rope::none && (has(Stage::q_rope) || has(Stage::k_rope));
  if (rotates)
    fit_rope(trials, candidates), fit_offset(trials, candidates), fit_decoded(trials, candidates);
  if (has(Stage::masked)) fit_window(trials, candidates), fit_chunks(trials, candidates);
  if (has(Stage::row_sum)) fit_denominator(trials, candidates);
  if (has(Stage::logsumexp) || has(Stage::head_out)) fit_joined_parts(trials, candidates);
  if (layer_.settings.alibi != Alibi::none && has(Stage::biased)) fit_slopes(trials, candidates);
  if (has(Stage::mlp_act)) fit_swish(trials, candidates);
  if (stage == Stage::residual || stage == Stage::mlp_x || stage == Stage::resid_post)
    fit_residual_scale(trials, candidates);
  fit_factor(trials, candidates);
  fit_parts(trials, candidates);
  if (stage == Stage::embed) fit_embedding(trials, candidates);
  if (layer_.dims.H > 1) fit_heads(trials, candidates);
  if (has(Stage::biased)) fit_distances(trials, candidates);
}

void CauseSearch::fit_scale(Trials& trials, Changes& candidates) {
  const double now = layer_.scale();
  if (!(now > 0)) return;
  const auto error = [&](double scale) {
    const Change change = scale_change(layer_, "scale.constant", scale, "", "");
    return trials.screen({&change}).error;
  };
  double scale = minimum_of(error, std::log(now / 64), std::log(now * 64), 48);
  const bool half = trials.target().half.has_value();
  // A named scale is tried at its exact value, because a fit against a short type has few correct
  // digits.
  if (const auto named = named_scale(layer_, scale, half ? 1e-2 : 1e-4))
    candidates.push_back(keep(scale_change(layer_, "scale.constant", named->value,
                                           fmt::format("{:.9g}", named->value),
                                           fmt::format("{:.6g} ({})", named->value, named->name))));
  const int digits = half ? 4 : 9;
  Change change =
      scale_change(layer_, "scale.constant", scale, fmt::format("{:.{}g}", scale, digits),
                   fmt::format("{:.{}g}", scale, std::min(digits, 6)));
  change.fitted = true;
  candidates.push_back(keep(std::move(change)));
}

/// A cap far above the scores has no effect, so that the search starts at a fraction of a usual
/// score.
void CauseSearch::fit_softcap(Trials& trials, Changes& candidates) {
  const auto error = [&](double cap) {
    const Change change = softcap_change(layer_, cap);
    return trials.screen({&change}).error;
  };
  // Steps by a third are small enough to come close to the cap and remove half of the difference.
  constexpr double step = 4.0 / 3;
  double near = 0, least = thresholds::worth_fitting * trials.screen(Changes{}).error;
  for (double cap = 0.125; cap < 512; cap *= step)
    if (const double left = error(cap); left < least) least = left, near = cap;
  if (near == 0) return;
  double cap = minimum_of(error, std::log(near / step), std::log(near * step), 4);
  // A cap is usually a round number, and rounding hides the digits of a fit.
  const double round = std::round(2 * cap) / 2;
  if (round > 0 && std::fabs(cap - round) <= (trials.target().half ? 0.03 : 1e-3) * round)
    cap = round;
  Change change = softcap_change(layer_, cap);
  change.fitted = true;
  candidates.push_back(keep(std::move(change)));
}

/// Numbers added to the softmax's denominator. A difference that is not far beyond rounding is
/// never fitted: some small number would remove half of it, whatever it is.
void CauseSearch::fit_denominator(Trials& trials, Changes& candidates) {
  const Target& target = trials.target();
  const double unchanged = trials.screen(Changes{}).error,
               rounding = target.half ? storing_error(target.half) : target.tolerance;
  if (!(unchanged > thresholds::far_beyond_rounding * rounding)) return;
  if (auto sinks = sinks_change(layer_, target, threads_))
    candidates.push_back(keep(std::move(*sinks)));
  constexpr double least_added = 1.0 / 1024, most_added = 16384, step = 2;
  for (const bool after_shift : {true, false}) {
    const auto error = [&](double added) {
      const Change change = denominator_change(added, after_shift);
      return trials.screen({&change}).error;
    };
    double near = 0, least = thresholds::worth_fitting * unchanged;
    for (double added = least_added; added <= most_added; added *= step)
      if (const double left = error(added); left < least) least = left, near = added;
    if (near == 0) continue;
    double added = minimum_of(error, std::log(near / step), std::log(near * step), 8);
    // Rounding hides the digits of a fit.
    const double round = std::round(added);
    if (round > 0 && std::fabs(added - round) <= (target.half ? 0.03 : 1e-3) * round) added = round;
    candidates.push_back(keep(denominator_change(added, after_shift)));
  }
}

/// Parts of the keys, as many as splits of a decoder are or as long as tiles of a kernel are.
void CauseSearch::fit_joined_parts(Trials& trials, Changes& candidates) {
  const std::size_t keys = layer_.dims.S_all;
  std::set<std::size_t> sizes;
  for (const std::size_t parts : {2U, 3U, 4U, 8U}) sizes.insert((keys + parts - 1) / parts);
  for (const std::size_t tile : {16U, 32U, 64U, 128U, 256U, 512U}) sizes.insert(tile);
  std::vector<Change> made;
  for (const std::size_t size : sizes)
    for (Change& change : joined_parts_changes(keys, size))
      if (trials.concerns(change)) made.push_back(std::move(change));
  if (made.empty()) return;
  std::vector<Changes> sets;
  for (const Change& change : made) sets.push_back({&change});
  const std::vector<Agreement> left = trials.screen(sets);
  const auto best = std::ranges::min_element(left, {}, &Agreement::error);
  if (best->error < thresholds::worth_fitting * trials.screen(Changes{}).error)
    candidates.push_back(keep(std::move(made[static_cast<std::size_t>(best - left.begin())])));
}

/// Several clipped numbers equal the limit, so that the largest number is the limit if it occurs at
/// least twice.
void CauseSearch::fit_clip(const Trials& trials, Changes& candidates) {
  const Change probe = clip_change(layer_, 1);
  if (!contains(probe.touches, trials.target().stage)) return;
  const Tensor theirs = convert(trials.target().theirs, DType::f64);
  double limit = 0;
  std::size_t reached = 0;
  for (const double number : theirs.as<double>()) {
    const double size = std::fabs(number);
    if (!std::isfinite(size) || size < limit) continue;
    reached = size == limit ? reached + 1 : 1;
    limit = size;
  }
  if (reached < 2 || limit == 0) return;
  Change change = clip_change(layer_, limit);
  change.fitted = true;
  candidates.push_back(keep(std::move(change)));
}

/// Fits β of x σ(β x) around SiLU's 1, and refines it if some β removes much of the difference.
void CauseSearch::fit_swish(Trials& trials, Changes& candidates) {
  constexpr double step = 1.25, most = 8;
  if (!swish_change(layer_, 1)) return;
  const auto error = [&](double beta) {
    const Change change = *swish_change(layer_, beta);
    return trials.screen({&change}).error;
  };
  double near = 0, least = thresholds::worth_fitting * trials.screen(Changes{}).error;
  for (double beta = 1 / most; beta <= most; beta *= step)
    if (const double left = error(beta); left < least) least = left, near = beta;
  if (near == 0) return;
  Change change =
      *swish_change(layer_, minimum_of(error, std::log(near / step), std::log(near * step), 4));
  change.fitted = true;
  candidates.push_back(keep(std::move(change)));
}

void CauseSearch::fit_rope(Trials& trials, Changes& candidates) {
  const auto fit = [&](Change (*make)(const Layer&, double), double low, double high, int steps) {
    const auto error = [&](double number) {
      const Change change = make(layer_, number);
      return trials.screen({&change}).error;
    };
    Change change = make(layer_, minimum_of(error, std::log(low), std::log(high), steps));
    change.fitted = true;
    candidates.push_back(keep(std::move(change)));
  };
  fit(rope_base_change, 10.0, 1e8, 160);
  fit(rope_factor_change, 1.0 / 64, 64.0, 96);
}

/// Positions of q, of k or of both that are off by a whole number. If only q or k is known, a later
/// stage decides, so that the best candidate of each kind is kept.
void CauseSearch::fit_offset(Trials& trials, Changes& candidates) {
  constexpr std::int64_t farthest = 32;
  for (const RopeSide side : {RopeSide::both, RopeSide::q, RopeSide::k}) {
    std::optional<Change> best;
    double least = std::numeric_limits<double>::infinity();
    for (std::int64_t by = -farthest; by <= farthest; ++by) {
      if (by == 0) continue;
      Change change = rope_offset_change(layer_, side, by);
      if (!trials.concerns(change)) break;
      if (const double error = trials.screen({&change}).error; error < least)
        least = error, best = std::move(change);
    }
    if (!best) continue;
    best->fitted = true;
    candidates.push_back(keep(std::move(*best)));
  }
}

/// Wrong positions from one token on, as a decoder with a cache may have: the best first token for
/// each kind. If the rotated q and k are unknown, each trial computes a whole layer, so that only
/// the last token of longer texts is tried.
void CauseSearch::fit_decoded(Trials& trials, Changes& candidates) {
  constexpr std::size_t longest = 512, short_text = 16;
  const Stage stage = trials.target().stage;
  const bool shown = stage == Stage::q_rope || stage == Stage::k_rope;
  const std::size_t T = layer_.dims.T;
  if (T < 2 || T > longest || stage == Stage::final || stage == Stage::logits) return;
  const std::size_t earliest = shown || T <= short_text ? 1 : T - 1;
  for (const Decoded how : all_decoded) {
    std::vector<Change> made;
    for (std::size_t first = earliest; first < T; ++first)
      made.push_back(rope_decoded_change(layer_, how, first));
    std::vector<Changes> sets;
    for (const Change& change : made) sets.push_back({&change});
    const std::vector<Agreement> left = trials.screen(sets);
    const auto best = std::ranges::min_element(left, {}, &Agreement::error);
    Change& change = made[static_cast<std::size_t>(best - left.begin())];
    change.fitted = true;
    candidates.push_back(keep(std::move(change)));
  }
}

} // namespace mha
