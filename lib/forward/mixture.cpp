#include <mha/forward/mixture.hpp>

#include <mha/kernels/activations.hpp>
#include <mha/kernels/rows.hpp>
#include <mha/schedule/experts.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

namespace mha {

namespace {

template <class T> T root_of_softplus(T x) {
  return std::sqrt(softplus(x));
}

template <class T> void softmax_row(T* row, std::size_t n) {
  const T sum = row_exp_sum(row, n, row_max(row, n));
  row_divide(row, n, sum);
}

template <class T> constexpr T lowest = -std::numeric_limits<T>::infinity();

/// Whether a number is better than another one: the larger; NaN is worse than any.
template <class T> bool is_better(T a, T b) {
  return a > b || (std::isnan(b) && !std::isnan(a));
}

/// The `count` best of `numbers`, the best first, of equal ones the first.
template <class T>
std::vector<std::size_t> best_of(const std::vector<T>& numbers, std::size_t count) {
  std::vector<std::size_t> order(numbers.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(
      order, [&](std::size_t a, std::size_t b) { return is_better(numbers[a], numbers[b]); });
  order.resize(std::min(count, order.size()));
  return order;
}

/// Takes the experts of groups that are not kept out of the choice.
template <class T> void mask_groups(const Routing& routing, std::vector<T>& scores) {
  if (routing.kept_groups >= routing.groups) return;
  const std::size_t size = scores.size() / routing.groups;
  std::vector<T> of_group(routing.groups);
  for (std::size_t g = 0; g < routing.groups; ++g) {
    std::vector<T> own(scores.begin() + static_cast<std::ptrdiff_t>(g * size),
                       scores.begin() + static_cast<std::ptrdiff_t>((g + 1) * size));
    const std::size_t counted = routing.group_score == GroupScore::top_two ? 2 : 1;
    T sum = 0;
    for (const std::size_t e : best_of(own, counted)) sum += own[e];
    of_group[g] = sum;
  }
  std::vector<bool> is_kept(routing.groups, false);
  for (const std::size_t g : best_of(of_group, routing.kept_groups)) is_kept[g] = true;
  for (std::size_t e = 0; e < scores.size(); ++e)
    if (!is_kept[e / size]) scores[e] = routing.masked_are_zero ? T(0) : lowest<T>;
}

} // namespace

template <class T>
void RouterScores<T>::apply(const TokenRows<T>& rows, Stage from, Stage to) const {
  const Matrix<const T> x = rows[from];
  const Matrix<T> y = rows[to];
  for (std::size_t t = 0; t < y.rows; ++t) {
    std::copy_n(x.row(t), y.cols, y.row(t));
    if (softcap_ > 0) row_softcap(y.row(t), y.cols, softcap_);
    switch (score_) {
    case RouterScore::softmax:
      softmax_row(y.row(t), y.cols);
      break;
    case RouterScore::sigmoid:
      std::transform(y.row(t), y.row(t) + y.cols, y.row(t), sigmoid<T>);
      break;
    case RouterScore::sqrt_softplus:
      std::transform(y.row(t), y.row(t) + y.cols, y.row(t), root_of_softplus<T>);
      break;
    case RouterScore::logits:
      break;
    }
  }
}

template <class T>
void ChosenExperts<T>::apply(const TokenRows<T>& rows, Stage from, Stage to) const {
  const Matrix<const T> scores = rows[from];
  const Matrix<T> y = rows[to];
  for (std::size_t t = 0; t < y.rows; ++t) {
    const T* const own = scores.row(t);
    std::vector<T> of_choice(own, own + scores.cols);
    if (!bias_.empty()) row_add(of_choice.data(), bias_.as<T>().data(), of_choice.size());
    mask_groups(routing_, of_choice);
    std::vector<std::size_t> chosen = best_of(of_choice, y.cols);
    std::ranges::sort(chosen);
    const auto weighed = [&](std::size_t e) {
      return factors_.empty() ? own[e] : own[e] * factors_.as<T>()[e];
    };
    std::ranges::stable_sort(
        chosen, [&](std::size_t a, std::size_t b) { return is_better(weighed(a), weighed(b)); });
    std::ranges::copy(chosen, y.row(t));
  }
}

template <class T>
void ExpertWeights<T>::apply(const TokenRows<T>& rows, Stage from, Stage to) const {
  const Matrix<const T> experts = rows[from], scores = rows[Stage::router_scores];
  const Matrix<T> y = rows[to];
  for (std::size_t t = 0; t < y.rows; ++t) {
    T* const weights = y.row(t);
    const std::vector<std::size_t> chosen =
        experts_of(experts.row(t), y.cols, scores.cols, rows.first() + t);
    for (std::size_t j = 0; j < y.cols; ++j) weights[j] = scores.row(t)[chosen[j]];
    if (routing_.weight == ExpertWeight::softmax_chosen) softmax_row(weights, y.cols);
    if (routing_.weight == ExpertWeight::renormalised) {
      const T sum = std::accumulate(weights, weights + y.cols, T(0));
      row_divide(weights, y.cols, sum);
    }
    if (routing_.factor != 1) row_scale(weights, y.cols, static_cast<T>(routing_.factor));
    for (std::size_t j = 0; !factors_.empty() && j < y.cols; ++j)
      weights[j] *= factors_.as<T>()[chosen[j]];
  }
}

template <class T> void SharedGate<T>::finish(Matrix<T> y) const {
  for (std::size_t t = 0; t < y.rows; ++t)
    std::transform(y.row(t), y.row(t) + y.cols, y.row(t), sigmoid<T>);
}

namespace {

/// sum += weight · result
template <class T> void add_times(T* sum, const T* result, T weight, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) sum[i] += weight * result[i];
}

} // namespace

template <class T> void ExpertSum<T>::apply(const TokenRows<T>& rows, Stage from, Stage to) const {
  const Matrix<const T> results = rows[from], weights = rows[Stage::expert_weights];
  const Matrix<T> y = rows[to];
  const bool weighs = !mixture_.routing.weighs_input;
  for (std::size_t t = 0; t < y.rows; ++t) {
    std::fill_n(y.row(t), y.cols, T(0));
    for (std::size_t j = 0; j < weights.cols; ++j)
      add_times(y.row(t), results.row(t) + j * y.cols, weighs ? weights.row(t)[j] : T(1), y.cols);
  }
}

template <class T> void MixtureSum<T>::apply(const TokenRows<T>& rows, Stage from, Stage to) const {
  const Matrix<T> y = rows[to];
  if (from == Stage::expert_out) chosen_.apply(rows, from, to);
  for (std::size_t t = 0; t < y.rows; ++t) {
    if (from != Stage::expert_out) std::copy_n(rows[from].row(t), y.cols, y.row(t));
    if (!mixture_.shared.present()) continue;
    const T gate = mixture_.shared_gate.present() ? *rows[Stage::shared_gate].row(t) : T(1);
    add_times(y.row(t), rows[Stage::shared_norm].row(t), gate, y.cols);
  }
}

template class RouterScores<float>;
template class RouterScores<double>;
template class ChosenExperts<float>;
template class ChosenExperts<double>;
template class ExpertWeights<float>;
template class ExpertWeights<double>;
template class SharedGate<float>;
template class SharedGate<double>;
template class ExpertSum<float>;
template class ExpertSum<double>;
template class MixtureSum<float>;
template class MixtureSum<double>;

} // namespace mha
