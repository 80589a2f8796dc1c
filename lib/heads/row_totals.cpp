#include <mha/heads/row_totals.hpp>

#include <algorithm>
#include <cmath>
#include <map>

namespace mha {

void keep_larger(std::optional<double>& largest, double value) {
  if (!largest || value > *largest) largest = value;
}

double larger(double a, double b) {
  return std::isnan(a) || a > b ? a : b;
}

void Moments::add(const Moments& later) {
  weight += later.weight, t += later.t, j += later.j;
  tt += later.tt, jj += later.jj, tj += later.tj;
}

std::optional<double> Moments::correlation() const {
  const double var_t = tt / weight - t / weight * t / weight,
               var_j = jj / weight - j / weight * j / weight,
               covariance = tj / weight - t / weight * j / weight;
  // The most that rounding makes of a variance of 0.
  constexpr double least = 1e-12;
  if (var_t <= least * tt / weight || var_j <= least * jj / weight) return std::nullopt;
  return covariance / std::sqrt(var_t * var_j);
}

void WeightTotals::add(const WeightTotals& later) {
  for (RowMean WeightTotals::*mean :
       {&WeightTotals::entropy, &WeightTotals::effective_keys, &WeightTotals::entropy_share,
        &WeightTotals::uniformity, &WeightTotals::one_key, &WeightTotals::distance,
        &WeightTotals::confidence, &WeightTotals::sink_share})
    (this->*mean).add(later.*mean);
  for (Score WeightTotals::*score :
       {&WeightTotals::first, &WeightTotals::self, &WeightTotals::previous, &WeightTotals::next,
        &WeightTotals::last, &WeightTotals::separator, &WeightTotals::window,
        &WeightTotals::induction, &WeightTotals::duplicate})
    (this->*score).add(later.*score);
  moments.add(later.moments), uniform_moments.add(later.uniform_moments);
  if (later.max > max || std::isnan(later.max)) {
    max = later.max;
    max_batch = later.max_batch, max_query = later.max_query, max_key = later.max_key;
  }
}

void RowTotals::add(const RowTotals& later) {
  masked += later.masked, attending += later.attending;
  looks_ahead |= later.looks_ahead;
  weights.add(later.weights), causal.add(later.causal);
  row_sum_error = larger(later.row_sum_error, row_sum_error);
  if (later.largest_logit) keep_larger(largest_logit, *later.largest_logit);
  if (later.largest_logsumexp) keep_larger(largest_logsumexp, *later.largest_logsumexp);
}

Repeats::Repeats(const Layer& layer, std::size_t batch) {
  const std::vector<std::string>&tokens = layer.tokens_of(batch),
        &keys = layer.key_tokens_of(batch);
  if (tokens.empty() || keys.empty() || !queries_are_among_keys(layer)) return;
  std::map<std::string_view, std::size_t> numbers;
  const auto number_of = [&](const std::string& token) {
    return numbers.try_emplace(token, numbers.size()).first->second;
  };
  for (const std::string& token : tokens) keys_of_query_.push_back(number_of(token));
  keys_.resize(numbers.size());
  for (std::size_t j = 0; j < std::min(keys.size(), layer.dims.past + layer.dims.S); ++j)
    if (const auto number = numbers.find(keys[j]); number != numbers.end())
      keys_[number->second].push_back(j);
}

bool queries_are_among_keys(const Layer& layer) {
  const Settings& s = layer.settings;
  if (s.causal || s.window_left >= 0 || s.window_right >= 0) return true;
  return layer.X_k.empty() && layer.X_v.empty() && layer.dims.T == layer.dims.S;
}

} // namespace mha
