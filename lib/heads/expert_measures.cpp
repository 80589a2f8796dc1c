#include <mha/heads/expert_measures.hpp>

#include <mha/observe/trace.hpp>

#include <algorithm>
#include <cmath>
#include <map>

namespace mha {

namespace {

/// −Σ p log₂ p of numbers that are not negative, p their shares.
double entropy_of(const std::vector<double>& numbers) {
  double sum = 0, entropy = 0;
  for (const double number : numbers) sum += number;
  for (const double number : numbers)
    if (number > 0) entropy -= number / sum * std::log2(number / sum);
  return entropy;
}

/// Scores that are logits, as shares.
void exponentiate(std::vector<double>& scores) {
  const double most = std::ranges::max(scores);
  for (double& score : scores) score = std::exp(score - most);
}

/// The keys with the largest numbers, the largest first.
std::vector<std::string> largest(const std::map<std::string, double>& sums, std::size_t count) {
  std::vector<std::pair<std::string, double>> order(sums.begin(), sums.end());
  std::ranges::stable_sort(order, std::greater<>(), &std::pair<std::string, double>::second);
  order.resize(std::min(count, order.size()));
  std::vector<std::string> names;
  for (auto& [name, sum] : order) names.push_back(std::move(name));
  return names;
}

} // namespace

LayerExperts measure_experts(const Layer& layer, const Selection& selection, const ComputeLayer& by,
                             std::size_t threads) {
  constexpr std::size_t shown_tokens = 5;
  const Trace traced =
      trace(layer, {Stage::router_scores, Stage::experts, Stage::expert_weights}, {}, threads, by);
  const Dims& dims = layer.dims;
  const bool are_logits = layer.block->mixture->routing.score == RouterScore::logits;
  const Tensor &scores = traced.value(Stage::router_scores), &chosen = traced.value(Stage::experts),
               &weights = traced.value(Stage::expert_weights);
  LayerExperts result;
  result.experts.resize(dims.E);
  std::vector<std::map<std::string, double>> of_tokens(dims.E);
  double all = 0;
  const std::vector<std::size_t> queries = chosen_queries(layer, selection).indices;
  for (const std::size_t item : chosen_items(layer, selection).indices)
    for (const std::size_t t : queries) {
      if (t >= layer.length_of(item)) continue;
      const std::size_t row = item * dims.T + t;
      ++result.tokens;
      std::vector<double> own(dims.E);
      for (std::size_t e = 0; e < dims.E; ++e) {
        own[e] = value_at(scores, row * dims.E + e);
        result.experts[e].score += own[e];
      }
      if (are_logits) exponentiate(own);
      result.router_entropy += entropy_of(own);
      const std::vector<std::string>& labels = layer.tokens_of(item);
      for (std::size_t j = row * dims.n; j < (row + 1) * dims.n; ++j) {
        const auto e = static_cast<std::size_t>(value_at(chosen, j));
        const double weight = value_at(weights, j);
        ++result.experts[e].tokens, result.experts[e].weight += weight, all += weight;
        if (t < labels.size()) of_tokens[e][labels[t]] += weight;
      }
    }
  const auto count = static_cast<double>(std::max<std::size_t>(1, result.tokens));
  result.router_entropy /= count;
  for (std::size_t e = 0; e < dims.E; ++e) {
    ExpertMeasures& expert = result.experts[e];
    expert.expert = e, expert.score /= count;
    expert.load = static_cast<double>(expert.tokens) / count;
    expert.share = all == 0 ? 0 : expert.weight / all;
    if (expert.tokens > 0) expert.weight /= static_cast<double>(expert.tokens);
    expert.top_tokens = largest(of_tokens[e], shown_tokens);
  }
  return result;
}

} // namespace mha
