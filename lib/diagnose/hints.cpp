
#include <mha/diagnose/differing_parts.hpp>
#include <mha/diagnose/hypotheses/edit.hpp>
#include <mha/diagnose/thresholds.hpp>
#include <mha/forward/mask.hpp>
#include <mha/layer/graph.hpp>
#include <mha/tensor/not_saved.hpp>

#include <algorithm>
#include <cmath>
#include <numeric>

namespace mha {

namespace {

std::string numbers(const std::vector<std::size_t>& list) {
  std::string text;
  for (std::size_t i = 0; i < list.size(); ++i)
    text += fmt::format("{}{}", i == 0 ? "" : i + 1 == list.size() ? " and " : ", ", list[i]);
  return text;
}

/// Names the parts that differ if they are few or contiguous: "head 3", "heads 1 and 3". Nothing if
/// all parts that can differ do; `free` marks them (empty: all), because others are hidden or
/// attend to a single key.
std::optional<std::string> parts_that_differ(const std::vector<double>& difference,
                                             double tolerance, const char* one, const char* several,
                                             const std::vector<bool>& free = {}) {
  const std::vector<std::size_t> list = differing_parts(difference, tolerance);
  if (list.empty() || list.size() == difference.size() || difference.size() < 2) return {};
  if (!free.empty() && list.size() >= static_cast<std::size_t>(std::ranges::count(free, true)))
    return {};
  if (list.size() == 1) return fmt::format("{} {}", one, list[0]);
  if (list.size() <= 4 && 3 * list.size() <= difference.size())
    return fmt::format("{} {}", several, numbers(list));
  // A contiguous run, such as the past or the end.
  if (list.back() - list.front() + 1 == list.size())
    return fmt::format("{} {}–{}", several, list.front(), list.back());
  return {};
}

double norm_of(const std::vector<double>& a) {
  return std::sqrt(std::inner_product(a.begin(), a.end(), a.begin(), 0.0));
}

/// Describes heads of theirs that equal other heads of ours.
std::optional<std::string> exchanged_heads(const Sides& s, double tolerance) {
  if (s.H < 2) return {};
  std::vector<std::size_t> moved, from;
  const std::vector<std::size_t> order = order_of_heads(s, tolerance);
  for (std::size_t g = 0; g < order.size(); ++g)
    if (order[g] != g) moved.push_back(g), from.push_back(order[g]);
  if (moved.size() == 2 && from[0] == moved[1])
    return fmt::format("heads {} and {} are exchanged", moved[0], moved[1]);
  if (moved.size() > 1)
    return fmt::format("heads {} hold what heads {} should: they are in another order",
                       numbers(moved), numbers(from));
  return {};
}

/// The cosine between ours and theirs over the numbers finite on both sides, and the relative
/// difference.
struct Likeness {
  double cosine = 0, error = 0;
};

Likeness likeness_of(const Tensor& ours, const Tensor& theirs) {
  std::vector<double> a, r;
  double square = 0;
  for (std::size_t i = 0; i < ours.count(); ++i) {
    const double x = value_at(ours, i), y = value_at(theirs, i);
    if (!std::isfinite(x) || !std::isfinite(y) || x <= thresholds::mask_constant ||
        y <= thresholds::mask_constant)
      continue;
    a.push_back(x), r.push_back(y), square += (x - y) * (x - y);
  }
  const double sizes = norm_of(a) * norm_of(r);
  if (!(sizes > 0)) return {};
  return {std::inner_product(a.begin(), a.end(), r.begin(), 0.0) / sizes,
          std::sqrt(square) / norm_of(r)};
}

bool is_projection(Stage stage) {
  return stage == Stage::q || stage == Stage::k || stage == Stage::v;
}

/// Whether rounding in the reference's short type causes an error of this size.
bool is_rounding(const Layer& layer, const Target& open, double error) {
  if (!open.half) return false;
  return error <= thresholds::own_rounding * Trials(layer, {}, open, {}, 0).usual_rounding();
}

/// Describes the stage as a whole: quantised weights or other weights.
std::optional<std::string> about_weights(const Layer& layer, const std::vector<Target>& targets,
                                         const Target& open) {
  const Sides s = sides_of(layer, open, value_of(layer, open.stage));
  const Likeness like = likeness_of(s.ours, s.theirs);
  const std::vector<double> by_token =
      differences(s, s.B * s.T, [&](std::size_t b, std::size_t, std::size_t t, std::size_t) {
        return b * s.T + t;
      });
  const auto differing = static_cast<std::size_t>(
      std::ranges::count_if(by_token, [](double d) { return d > thresholds::differs_a_little; }));
  const bool everywhere = differing == by_token.size();
  const bool hides_alike = std::ranges::all_of(by_token, [](double d) { return std::isfinite(d); });
  if (everywhere && hides_alike && like.cosine > thresholds::same_direction &&
      like.error < thresholds::off_a_little && !is_rounding(layer, open, like.error))
    return fmt::format(
        "every token is off a little, by {:.2g} of the stage, and the direction is the same "
        "(cosine "
        "{:.6f}): quantised or rounded weights, or a slightly different input, look like this",
        like.error, like.cosine);
  const double factor = projection(s.theirs, s.ours, {}),
               beside = std::sqrt(std::max(0.0, 1 - like.cosine * like.cosine));
  if (everywhere && hides_alike && like.cosine > thresholds::same_direction &&
      like.error >= thresholds::off_a_little && factor > 0 && !is_rounding(layer, open, beside))
    return fmt::format("the reference's {} is {:.4g} times this layer's, and off a little besides, "
                       "by {:.2g}, in the "
                       "same direction (cosine {:.6f}): a factor that is left out, or applied "
                       "twice, with quantised "
                       "or rounded weights looks like this",
                       name_of(open.stage), factor, beside, like.cosine);
  // The cosine of few numbers is far from 0 by chance.
  const double chance = 4 / std::sqrt(static_cast<double>(s.theirs.count()));
  const bool first = &open == &targets.front() || is_projection(open.stage);
  if (first && everywhere &&
      std::fabs(like.cosine) <
          std::min(thresholds::nothing_in_common, std::max(chance, thresholds::usual_chance)))
    return fmt::format(
        "the reference's {} has nothing in common with this layer's (cosine {:.2f}): other "
        "weights, another layer's, or another input",
        name_of(open.stage), like.cosine);
  return {};
}

/// Whether theirs are 0 in all columns that differ, as if never written.
bool zero_where(const Sides& s, const std::vector<double>& columns, double tolerance) {
  const std::vector<std::size_t> list = differing_parts(columns, tolerance);
  for (std::size_t b = 0; b < s.B; ++b)
    for (std::size_t h = 0; h < s.H; ++h)
      for (std::size_t t = 0; t < s.T; ++t)
        for (std::size_t j : list)
          if (value_at(s.theirs, s.at(b, h, t, j)) != 0) return false;
  return true;
}

/// The queries and keys whose weights can differ. A query that sees a single key has the weight 1
/// there, and keys that only such queries see cannot differ either.
struct FreeChoices {
  std::vector<bool> queries, keys;
  /// The queries if there are as many rows as queries, else empty.
  std::vector<bool> of_rows(std::size_t rows) const {
    return rows == queries.size() ? queries : std::vector<bool>{};
  }
};
FreeChoices free_parts(const Layer& layer) {
  const Dims& d = layer.dims;
  FreeChoices free{std::vector<bool>(d.T), std::vector<bool>(d.S_all)};
  by_precision(layer.dtype, [&]<class T>(T) {
    const auto is_seen = [](T added) {
      return static_cast<double>(added) > thresholds::mask_constant;
    };
    std::vector<T> row(d.S_all);
    for (std::size_t b = 0; b < d.B; ++b)
      for (std::size_t t = 0; t < layer.length_of(b); ++t) {
        std::ranges::fill(row, T(0));
        add_masks(layer, {b, 0, t}, Keys<T>{row.data(), 0, d.S_all});
        if (std::ranges::count_if(row, is_seen) < 2) continue;
        free.queries[t] = true;
        for (std::size_t j = 0; j < d.S_all; ++j)
          if (is_seen(row[j])) free.keys[j] = true;
      }
  });
  return free;
}

bool are_keys(Stage stage) {
  return stage == Stage::k || stage == Stage::v || stage == Stage::k_norm ||
         stage == Stage::k_rope || stage == Stage::k_all || stage == Stage::v_all;
}

/// Describes where the differences are.
void about_places(const Sides& s, double tolerance, Stage stage, const Layer& layer,
                  std::vector<std::string>& hints) {
  const auto add = [&](const std::optional<std::string>& text, const char* more) {
    if (text)
      hints.push_back(
          fmt::format("all elements of {} that differ are in {}{}", name_of(stage), *text, more));
  };
  if (s.H > 1) {
    const std::optional<std::string> heads = parts_that_differ(
        differences(s, s.H, [](std::size_t, std::size_t h, std::size_t, std::size_t) { return h; }),
        tolerance, "head", "heads");
    add(heads, "");
    if (const std::optional<std::string> moved = exchanged_heads(s, tolerance))
      hints.push_back(*moved);
  }
  const bool keys_are_rows = are_keys(stage);
  const FreeChoices free = follows(stage, Stage::masked) ? free_parts(layer) : FreeChoices{};
  const std::size_t past = layer.dims.past;
  const auto of_past = [&](const std::vector<double>& difference) {
    const std::vector<std::size_t> list = differing_parts(difference, tolerance);
    return past > 0 && list.size() > 1 && list.back() < past && difference.size() > past;
  };
  if (s.map) {
    const std::vector<double> keys =
        differences(s, s.n, [](std::size_t, std::size_t, std::size_t, std::size_t j) { return j; });
    if (of_past(keys))
      hints.push_back("all elements that differ are in keys of the past: the cache");
    else
      add(parts_that_differ(keys, tolerance, "key", "keys", free.keys), "");
  }
  const std::vector<double> rows = row_differences(s);
  if (keys_are_rows && of_past(rows))
    hints.push_back("all elements that differ are in keys of the past: the cache");
  else
    add(parts_that_differ(rows, tolerance,
                          keys_are_rows ? "key"
                          : s.packed    ? "token"
                                        : "query",
                          keys_are_rows ? "keys"
                          : s.packed    ? "tokens"
                                        : "queries",
                          free.of_rows(rows.size())),
        "");
  if (s.packed && s.n > 1 && hints.empty()) {
    const std::vector<double> columns =
        differences(s, s.n, [](std::size_t, std::size_t, std::size_t, std::size_t j) { return j; });
    add(parts_that_differ(columns, tolerance, "dimension", "dimensions"),
        zero_where(s, columns, tolerance)
            ? (s.H > 1 ? " of each head, where the reference has 0" : ", where the reference has 0")
        : s.H > 1 ? " of each head"
                  : "");
  }
  if (s.B > 1)
    add(parts_that_differ(
            differences(s, s.B,
                        [](std::size_t b, std::size_t, std::size_t, std::size_t) { return b; }),
            tolerance, "batch item", "batch items"),
        "");
}

/// Solves A c = y by elimination for a symmetric positive n × n matrix A; empty if it is singular.
std::vector<double> solved(std::vector<double> A, std::vector<double> y) {
  const std::size_t n = y.size();
  for (std::size_t i = 0; i < n; ++i) {
    const double pivot = A[i * n + i];
    if (!(pivot > 0)) return {};
    for (std::size_t row = i + 1; row < n; ++row) {
      const double f = A[row * n + i] / pivot;
      for (std::size_t j = i; j < n; ++j) A[row * n + j] -= f * A[i * n + j];
      y[row] -= f * y[i];
    }
  }
  for (std::size_t i = n; i-- > 0;) {
    for (std::size_t j = i + 1; j < n; ++j) y[i] -= A[i * n + j] * y[j];
    y[i] /= A[i * n + i];
  }
  return y;
}

/// Fits the output as a sum of the heads' results with a factor each, and names the heads whose
/// factor is not 1.
std::optional<std::string> heads_of_output(const Layer& layer, const Target& open) {
  if (open.stage != Stage::output || layer.W_o.empty() || layer.dims.H < 2) return {};
  const std::size_t H = layer.dims.H;
  const std::vector<Tensor> values = values_of(layer, {Stage::head_result, Stage::output});
  const Tensor& heads = values[0]; // B, H, T, d_model
  const std::size_t B = open.theirs.shape()[0], inner = open.theirs.count() / B;
  std::vector<double> A(H * H, 0.0), y(H, 0.0), difference(open.theirs.count());
  double all = 0;
  for (std::size_t i = 0; i < difference.size(); ++i) {
    difference[i] = value_at(open.theirs, i) - value_at(values[1], i);
    if (!std::isfinite(difference[i])) return {};
    all += difference[i] * difference[i];
  }
  std::vector<double> row(H);
  for (std::size_t b = 0; b < B; ++b)
    for (std::size_t i = 0; i < inner; ++i) {
      for (std::size_t h = 0; h < H; ++h) row[h] = value_at(heads, (b * H + h) * inner + i);
      for (std::size_t h = 0; h < H; ++h) {
        y[h] += row[h] * difference[b * inner + i];
        for (std::size_t g = 0; g < H; ++g) A[h * H + g] += row[h] * row[g];
      }
    }
  const std::vector<double> c = solved(A, y);
  if (c.empty()) return {};
  double explained = 0;
  for (std::size_t h = 0; h < H; ++h) explained += c[h] * y[h];
  if (!(explained > thresholds::sum_of_heads * all)) return {};
  std::vector<std::size_t> off;
  for (std::size_t h = 0; h < H; ++h)
    if (std::fabs(c[h]) > thresholds::counts_otherwise) off.push_back(h);
  if (off.empty() || 2 * off.size() > H + 1) return {};
  std::string factors;
  for (std::size_t h : off)
    factors += fmt::format("{}{:.3g}", factors.empty() ? "" : ", ", 1 + c[h]);
  return fmt::format("the output is as if {} {} counted {} times instead of once",
                     off.size() == 1 ? "head" : "heads", numbers(off), factors);
}

/// Names differing heads from the output alone.
void about_heads_of_output(const Layer& layer, const Target& open,
                           std::vector<std::string>& hints) {
  if (open.stage != Stage::output || layer.W_o.empty() || layer.dims.H < 2) return;
  Target joined = open;
  joined.stage = Stage::concat;
  joined.theirs = joined_heads_of(layer, open.theirs);
  if (joined.theirs.empty()) return;
  const Sides s = sides_of(layer, joined, value_of(layer, joined.stage));
  const std::vector<double> difference =
      differences(s, s.H, [](std::size_t, std::size_t h, std::size_t, std::size_t) { return h; });
  const double largest = *std::ranges::max_element(difference);
  if (!(largest > thresholds::seen_through_product) || !std::isfinite(largest)) return;
  const double small =
      std::max(thresholds::small_beside_largest * largest, thresholds::small_through_product);
  if (const auto heads = parts_that_differ(difference, small / 8, "head", "heads"))
    hints.push_back(fmt::format("what differs in the output comes from {} alone", *heads));
  if (const auto moved = exchanged_heads(s, small / 8)) hints.push_back(*moved);
}

/// Counts the reference's NaNs where the layer has none, and names the first such token.
std::optional<std::string> about_nan(const Sides& s) {
  std::size_t count = 0, first = 0;
  for (std::size_t i = 0; i < s.theirs.count(); ++i) {
    const double a = value_at(s.theirs, i);
    if (std::isnan(a) && !is_not_saved(a) && !std::isnan(value_at(s.ours, i)) && count++ == 0)
      first = i;
  }
  if (count == 0) return std::nullopt;
  const Shape& shape = s.theirs.shape();
  const std::string from =
      shape.size() == 3 ? fmt::format(", the first at token {}", first / shape[2] % shape[1]) : "";
  return fmt::format("{} of its {} numbers are NaN{}: a query from which every key is hidden (0/0 "
                     "in its softmax), or a number beyond the type's range before it",
                     count, s.theirs.count(), from);
}

} // namespace

std::vector<std::string> hints_for(const Layer& layer, const std::vector<Target>& targets,
                                   Stage unexplained) {
  std::vector<std::string> hints;
  const auto open = std::ranges::find_if(
      targets, [&](const Target& target) { return target.stage == unexplained; });
  if (open == targets.end() || open->theirs.empty()) return hints;
  if_allowed([&] { // no hints if the stage cannot be computed by itself
    const Sides s = sides_of(layer, *open, value_of(layer, open->stage));
    if (s.ours.shape() != s.theirs.shape()) return;
    if (const auto nan = about_nan(s)) return hints.push_back(*nan);
    about_places(s, open->tolerance, unexplained, layer, hints);
    if (const auto heads = heads_of_output(layer, *open)) hints.push_back(*heads);
    if (hints.empty()) about_heads_of_output(layer, *open, hints);
    if (hints.empty())
      if (const auto weights = about_weights(layer, targets, *open)) hints.push_back(*weights);
  });
  return hints;
}

} // namespace mha
