#include <mha/diagnose/judge.hpp>

#include <mha/diagnose/agreement.hpp>
#include <mha/diagnose/differing_parts.hpp>
#include <mha/diagnose/hypotheses/edit.hpp>
#include <mha/diagnose/thresholds.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace mha {

namespace {

double allowed_of_rounding(const Changes& changes) {
  const bool rare = std::ranges::any_of(
      changes, [](const Change* change) { return change->rare || change->fitted; });
  return changes.size() > 1 && rare ? thresholds::most_of_rounding_for_rare_pairs
                                    : thresholds::most_of_rounding;
}

} // namespace

Tensor with_infinities(Stage stage, const Tensor& ours, const Tensor& theirs) {
  if (stage != Stage::masked || ours.shape() != theirs.shape()) return theirs;
  Tensor result = copied(theirs);
  by_precision(theirs.dtype(), [&]<class T>(T) {
    const auto own = ours.as<T>();
    const auto to = result.as_mutable<T>();
    for (std::size_t i = 0; i < to.size(); ++i)
      if (std::isinf(own[i]) && own[i] < 0 && to[i] <= static_cast<T>(thresholds::mask_constant))
        to[i] = own[i];
  });
  return result;
}

std::size_t fitted_in(const Changes& changes) {
  return static_cast<std::size_t>(
      std::ranges::count_if(changes, [](const Change* change) { return change->fitted; }));
}

const Agreement& StageJudge::unchanged() const {
  if (!unchanged_) unchanged_ = trials_.screen(Changes{});
  return *unchanged_;
}

bool StageJudge::is_likely(const Agreement& screened) const {
  if (in_half()) return screened.error <= thresholds::most_left_in_half * unchanged().error;
  return screened.agrees || screened.error <= thresholds::worth_confirming;
}

std::optional<double> StageJudge::left_by(const Changes& changes) const {
  if (in_half()) return if_allowed([&] { return left_in_half(changes); }).value_or(std::nullopt);
  const Agreement whole = trials_.whole(changes);
  return whole.agrees && whole.error <= most_left() ? std::optional(whole.error) : std::nullopt;
}

double StageJudge::most_left() const {
  const Target& target = trials_.target();
  if (!is_short(target.stored)) return std::numeric_limits<double>::infinity();
  if (!most_left_)
    most_left_ =
        thresholds::most_left_in_half * agreement_of(trials_.value(), target.theirs, 0).error;
  return *most_left_;
}

/// What a set leaves if it removes most of the difference and the rest is rounding.
std::optional<double> StageJudge::left_in_half(const Changes& changes) const {
  const Target& target = trials_.target();
  const Tensor value = trials_.value(changes);
  const double left = agreement_of(value, target.theirs, target.tolerance).error;
  if (left > thresholds::most_left_in_half * unchanged().error) return std::nullopt;
  if (left >
      allowed_of_rounding(changes) * trials_.usual_rounding(changes) + storing_error(target.half))
    return std::nullopt;
  return trials_.is_rounding(value, changes) ? std::optional(left) : std::nullopt;
}

bool StageJudge::is_as_good(double left, double least) const {
  return !in_half() || left <= thresholds::as_good_in_half * least;
}

bool StageJudge::may_fit_better(const std::vector<Changes>& found) const {
  return std::ranges::all_of(found, [&](const Changes& changes) {
    if (fitted_in(changes) > 0) return true;
    if (!in_half()) return false;
    const double left = agreement_of(trials_.value(changes), trials_.target().theirs, 0).error;
    return left > thresholds::usual_of_rounding * trials_.usual_rounding(changes);
  });
}

std::vector<Changes> StageJudge::closest_of(std::vector<Changes> found) const {
  const Target& target = trials_.target();
  if (!in_half() || found.size() < 2) return found;
  std::vector<double> left;
  for (const Changes& changes : found)
    left.push_back(agreement_of(trials_.value(changes), target.theirs, target.tolerance).error);
  const double least = *std::ranges::min_element(left);
  std::vector<Changes> closest;
  for (std::size_t i = 0; i < found.size(); ++i)
    if (is_as_good(left[i], least)) closest.push_back(found[i]);
  return closest;
}

bool StageJudge::helps_one_row(const Changes& changes) const {
  return trials_.screen(changes).error_elsewhere >
         thresholds::most_left_in_half * unchanged().error_elsewhere;
}

namespace {

/// How many times its own error by chance the part is that a difference has of a change's effect,
/// by how much the rows' own parts scatter: in the rounding of several steps the numbers of a row
/// are wrong together. `moved` is the change's effect. Infinite for a few rows, which show no
/// scatter.
double certain_by_rows(const Tensor& ours, const Tensor& theirs, const Tensor& moved, double part) {
  constexpr std::size_t least_rows = 3;
  const std::size_t n = ours.shape().back();
  double square = 0, scatter = 0;
  std::size_t rows = 0;
  if (theirs.shape() != ours.shape() || moved.shape() != ours.shape())
    return std::numeric_limits<double>::infinity();
  for (std::size_t first = 0; first < ours.count(); first += n) {
    double product = 0, own = 0;
    for (std::size_t i = first; i < first + n; ++i) {
      const double effect = value_at(moved, i) - value_at(ours, i),
                   off = value_at(theirs, i) - value_at(ours, i);
      if (std::isfinite(effect) && std::isfinite(off))
        product += effect * off, own += effect * effect;
    }
    if (own > 0) square += own, scatter += std::pow(product - part * own, 2), ++rows;
  }
  return rows < least_rows || scatter == 0 ? std::numeric_limits<double>::infinity()
                                           : part * square / std::sqrt(scatter);
}

} // namespace

std::vector<Changes>
StageJudge::seen_through_rounding(const Tensor& ours, const Changes& candidates,
                                  const std::map<const Change*, Agreement>& alone) const {
  const Tensor& theirs = trials_.target().theirs;
  const double root = std::sqrt(static_cast<double>(theirs.count()));
  std::vector<std::pair<double, const Change*>> seen;
  for (const Change* change : candidates) {
    if (!(alone.at(change).error < thresholds::lessens * unchanged().error) ||
        change->id.starts_with("precision."))
      continue;
    const std::optional<Tensor> value = if_allowed([&] { return trials_.value({change}); });
    if (!value) continue;
    const double left = agreement_of(*value, theirs, 0).error,
                 moved = agreement_of(*value, ours, 0).error,
                 part = projection(theirs, *value, ours), sure = moved / left * root;
    if (part * sure > thresholds::no_chance &&
        certain_by_rows(ours, theirs, *value, part) > thresholds::no_chance_by_rows &&
        std::fabs(part - 1) <
            std::max(thresholds::as_far_as_it_goes / sure, thresholds::nearly_as_far))
      seen.emplace_back(left, change);
  }
  std::ranges::stable_sort(seen, {}, [](const auto& one) { return one.first; });
  std::vector<Changes> sets;
  for (const auto& [left, change] : seen) sets.push_back({change});
  return sets;
}

namespace {

bool made_of_queries(Stage stage) {
  return stage == Stage::q || stage == Stage::q_norm || stage == Stage::q_rope;
}

bool made_of_keys(Stage stage) {
  return stage == Stage::k || stage == Stage::k_norm || stage == Stage::k_rope ||
         stage == Stage::k_all;
}

/// The least-squares factor from ours to theirs.
double factor_of(const Tensor& ours, const Tensor& theirs) {
  double product = 0, square = 0;
  for (std::size_t i = 0; i < ours.count(); ++i) {
    const double a = value_at(ours, i), b = value_at(theirs, i);
    if (!std::isfinite(a) || !std::isfinite(b)) continue;
    product += a * b, square += a * a;
  }
  return square > 0 ? product / square : 0;
}

/// For each column of their heads, the column of ours that equals it in every head; empty if one
/// has none.
std::vector<std::size_t> order_of(const Tensor& ours, const Tensor& theirs, std::size_t d,
                                  double tolerance) {
  const std::size_t width = ours.shape().back(), heads = width / d, rows = ours.count() / width;
  std::vector<std::size_t> order;
  std::vector<bool> taken(d, false);
  double square = 0;
  for (std::size_t i = 0; i < theirs.count(); ++i) square += std::pow(value_at(theirs, i), 2);
  const double bound =
      tolerance * 4 *
      std::sqrt(square / static_cast<double>(std::max<std::size_t>(1, theirs.count())));
  for (std::size_t i = 0; i < d; ++i) {
    const auto equals = [&](std::size_t j) {
      for (std::size_t row = 0; row < rows; ++row)
        for (std::size_t h = 0; h < heads; ++h)
          if (!(std::fabs(value_at(ours, row * width + h * d + j) -
                          value_at(theirs, row * width + h * d + i)) <= bound))
            return false;
      return true;
    };
    std::size_t j = 0;
    while (j < d && (taken[j] || !equals(j))) ++j;
    if (j == d) return {};
    taken[j] = true;
    order.push_back(j);
  }
  return order;
}

/// Whether only a softmax without sinks reads the numbers of a stage: one added to a whole row has
/// no effect.
bool softmax_ignores_rows(const Layer& layer, Stage stage) {
  const bool capped = layer.settings.softcap != 0;
  const bool before_cap = stage == Stage::scores || stage == Stage::scaled;
  return layer.sinks.empty() && is_of(stage, {Section::scores}) && !(capped && before_cap);
}

/// Theirs, less the mean by which each row exceeds ours where neither is hidden.
Tensor without_row_offsets(const Tensor& ours, const Tensor& theirs) {
  Tensor result = copied(theirs);
  const std::size_t n = theirs.shape().back();
  const auto shown = [&](std::size_t i) {
    const double a = value_at(ours, i), r = value_at(theirs, i);
    return std::isfinite(a) && std::isfinite(r) && a > thresholds::mask_constant &&
           r > thresholds::mask_constant;
  };
  by_precision(result.dtype(), [&]<class T>(T) {
    const auto to = result.as_mutable<T>();
    for (std::size_t first = 0; first < to.size(); first += n) {
      double sum = 0, count = 0;
      for (std::size_t i = first; i < first + n; ++i)
        if (shown(i)) sum += value_at(theirs, i) - value_at(ours, i), count += 1;
      for (std::size_t i = first; i < first + n; ++i)
        if (shown(i)) to[i] = static_cast<T>(value_at(theirs, i) - sum / count);
    }
  });
  return result;
}

/// Theirs with the heads in our order; empty if they are in this order or some have no equal.
Tensor in_our_heads(const Sides& s, std::vector<std::size_t>& order, double tolerance) {
  order = order_of_heads(s, tolerance);
  std::vector<bool> taken(s.H, false);
  bool own = true;
  for (std::size_t g = 0; g < order.size(); ++g) {
    if (taken[order[g]]) return {};
    taken[order[g]] = true, own = own && order[g] == g;
  }
  if (order.empty() || own) return {};
  Tensor result = Tensor::uninitialised(s.theirs.dtype(), s.theirs.shape());
  by_precision(result.dtype(), [&]<class T>(T) {
    for (std::size_t b = 0; b < s.B; ++b)
      for (std::size_t g = 0; g < s.H; ++g)
        for (std::size_t t = 0; t < s.T; ++t)
          for (std::size_t j = 0; j < s.n; ++j)
            result.as_mutable<T>()[s.at(b, order[g], t, j)] = s.theirs.as<T>()[s.at(b, g, t, j)];
  });
  return result;
}

} // namespace

std::string heads_in_another_order(const Layer& layer, const Trials& trials, const Tensor& ours) {
  const Target& target = trials.target();
  const bool of_heads = is_of(target.stage, {Section::heads, Section::scores, Section::softmax});
  if ((!of_heads && target.stage != Stage::head_out) || layer.dims.H < 2 ||
      layer.dims.H != layer.dims.H_kv)
    return "";
  std::vector<std::size_t> order;
  const Tensor theirs = in_our_heads(sides_of(layer, target, ours), order, target.tolerance);
  if (theirs.empty() || !trials.is_rounding(ours, {}, theirs)) return "";
  return fmt::format("equal up to the order of the heads: {}", fmt::join(order, ", "));
}

std::string harmless_difference(const Layer& layer, const Trials& trials, const Tensor& ours,
                                double rounding) {
  const Stage stage = trials.target().stage;
  const Tensor& theirs = trials.target().theirs;
  if (softmax_ignores_rows(layer, stage) &&
      trials.is_rounding(ours, {}, without_row_offsets(ours, theirs)))
    return "equal up to a number added to each row, which the softmax does not see";
  if (!made_of_queries(stage) && !made_of_keys(stage) && stage != Stage::scores) return "";
  const double tolerance = 4 * rounding;
  const double factor = factor_of(ours, theirs);
  if (factor > 0 && std::isfinite(factor) && std::fabs(factor - 1) > tolerance) {
    // Split into a power of two, which does not change rounding, and a number near 1.
    const double power = std::exp2(std::round(std::log2(factor))), near = factor / power;
    const auto times = [](const Tensor& tensor, double by) {
      return each_number(tensor, [by](double a) { return a * by; });
    };
    if (trials.is_rounding(times(ours, near), {}, times(theirs, 1 / power)))
      return fmt::format("equal up to the factor {:.6g}", factor);
  }
  if (stage == Stage::scores || layer.dims.d_k < 2) return "";
  const std::size_t d = layer.dims.d_k;
  const std::vector<std::size_t> order = order_of(ours, theirs, d, tolerance);
  if (order.empty()) return "";
  std::vector<std::size_t> place(d);
  for (std::size_t i = 0; i < d; ++i) place[order[i]] = i;
  const Tensor in_order =
      columns_from(theirs, [&](std::size_t i) { return i / d * d + place[i % d]; });
  if (!trials.is_rounding(ours, {}, in_order)) return "";
  std::string text = "equal up to the order of the dimensions in each head:";
  for (std::size_t i = 0; i < std::min<std::size_t>(order.size(), 8); ++i)
    text += fmt::format("{}{}", i == 0 ? " " : ", ", order[i]);
  return text + (order.size() > 8 ? ", …" : "");
}

} // namespace mha
