#include <mha/diagnose/harmless.hpp>

#include <mha/diagnose/agreement.hpp>
#include <mha/diagnose/hypotheses/edit.hpp>

#include <algorithm>
#include <cmath>

namespace mha {

namespace {

bool made_of_queries(Stage stage) {
  return stage == Stage::q || stage == Stage::q_norm || stage == Stage::q_rope;
}

bool made_of_keys(Stage stage) {
  return stage == Stage::k || stage == Stage::k_norm || stage == Stage::k_rope ||
         stage == Stage::k_all;
}

/// The least squares factor from ours to theirs.
double factor_of(const Tensor& ours, const Tensor& theirs) {
  double product = 0, square = 0;
  for (std::size_t i = 0; i < ours.count(); ++i) {
    const double a = value_at(ours, i), b = value_at(theirs, i);
    if (!std::isfinite(a) || !std::isfinite(b)) continue;
    product += a * b, square += a * a;
  }
  return square > 0 ? product / square : 0;
}

/// For each column of a head the one of theirs that equals it in every head; empty if there is
/// none.
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

} // namespace

std::string harmless_difference(const Layer& layer, const Trials& trials, const Tensor& ours,
                                double rounding) {
  const Stage stage = trials.target().stage;
  const Tensor& theirs = trials.target().theirs;
  if (!made_of_queries(stage) && !made_of_keys(stage) && stage != Stage::scores) return "";
  const double tolerance = 4 * rounding;
  const double factor = factor_of(ours, theirs);
  if (factor > 0 && std::isfinite(factor) && std::fabs(factor - 1) > tolerance) {
    // A power of two, by which rounding stays as it is, and a number near 1.
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
