// Causes with a fitted number: the scale, rotary base, factor and positions, soft cap, clip,
// Swish's β, and the key/value head of each query head.

#include <mha/diagnose/causes.hpp>
#include <mha/diagnose/differing_parts.hpp>
#include <mha/diagnose/hypotheses/edit.hpp>
#include <mha/diagnose/hypotheses/fitted_changes.hpp>
#include <mha/diagnose/thresholds.hpp>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

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
  if (layer_.settings.alibi != Alibi::none && has(Stage::biased)) fit_slopes(trials, candidates);
  if (has(Stage::mlp_act)) fit_swish(trials, candidates);
  if (stage == Stage::residual || stage == Stage::mlp_x || stage == Stage::resid_post)
    fit_residual_scale(trials, candidates);
  fit_factor(trials, candidates);
  fit_parts(trials, candidates);
  if (stage == Stage::embed) fit_embedding(trials, candidates);
  const bool shares = has(Stage::scores) || has(Stage::head_out);
  if (shares && layer_.dims.H_kv > 1 && layer_.dims.H > 1) fit_kv_heads(trials, candidates);
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

namespace {

/// The change under which query head h reads key/value head heads[h].
Change kv_heads_change(const std::vector<std::size_t>& heads) {
  std::string text;
  for (std::size_t h = 0; h < std::min<std::size_t>(heads.size(), 12); ++h)
    text += fmt::format("{}{}", h == 0 ? "" : ", ", heads[h]);
  return {"gqa.map", StageSet{Stage::scores, Stage::head_out},
          fmt::format("lets query heads 0, 1, … read key/value heads {}{}", text,
                      heads.size() > 12 ? ", …" : ""),
          "let query head h read key/value head ⌊h · H_kv / H⌋",
          [heads](Layer& edited) { edited.kv_heads = heads; }};
}

/// For each head of a stage, the sum of squares of ours − theirs.
std::vector<double> errors_by_head(const Tensor& ours, const Tensor& theirs, std::size_t H,
                                   bool packed) {
  std::vector<double> errors(H, 0.0);
  const std::size_t outer = ours.shape()[0] * (packed ? ours.shape()[1] : 1),
                    inner = ours.count() / (outer * H);
  for (std::size_t i = 0; i < ours.count(); ++i) {
    const double difference = value_at(ours, i) - value_at(theirs, i);
    if (std::isfinite(difference)) errors[i / inner % H] += difference * difference;
  }
  return errors;
}

} // namespace

/// Finds the key/value head of each query head separately, from a stage with heads or from the
/// output.
void CauseSearch::fit_kv_heads(Trials& trials, Changes& candidates) {
  const Target& target = trials.target();
  const Dims& d = layer_.dims;
  const bool is_output = target.stage == Stage::output && !layer_.W_o.empty();
  const bool packed = is_output || target.stage == Stage::head_out || target.stage == Stage::concat;
  if (info_of(target.stage).kind != Kind::map && !packed) return;
  const Tensor theirs = is_output ? joined_heads_of(layer_, target.theirs) : target.theirs;
  if (theirs.empty()) return;
  std::vector<std::size_t> heads(d.H, 0);
  std::vector<double> least(d.H, std::numeric_limits<double>::infinity());
  for (std::size_t g = 0; g < d.H_kv; ++g) {
    const Change all = kv_heads_change(std::vector<std::size_t>(d.H, g));
    const Tensor ours = is_output ? value_of(changed(layer_, {&all}), Stage::concat, threads_)
                                  : trials.value({&all});
    const std::vector<double> errors = errors_by_head(ours, theirs, d.H, packed);
    for (std::size_t h = 0; h < d.H; ++h)
      if (errors[h] < least[h]) least[h] = errors[h], heads[h] = g;
  }
  Change change = kv_heads_change(heads);
  change.fitted = true;
  candidates.push_back(keep(std::move(change)));
}

} // namespace mha
