// Variances of the steps of a mixture, its choice of experts taken as made.

#include <mha/compare/spread.hpp>

#include <algorithm>
#include <cmath>

namespace mha {

namespace {

double squared(double x) {
  return x * x;
}

/// The variance of softmax(x), `y`, of a row: y_i² ((1 − y_i)² σ_i² + Σ_{j≠i} y_j² σ_j²).
void through_softmax(const double* y, std::size_t n, double* variance) {
  double others = 0;
  for (std::size_t j = 0; j < n; ++j) others += squared(y[j]) * variance[j];
  for (std::size_t i = 0; i < n; ++i)
    variance[i] =
        squared(y[i]) * (squared(1 - y[i]) * variance[i] + others - squared(y[i]) * variance[i]);
}

} // namespace

/// Of the scores: the derivative of softmax, σ or √softplus.
StageNumbers Variances::of_router_scores() const {
  const StageNumbers& y = values_.at(Stage::router_scores);
  StageNumbers variance = variances_.at(Stage::router);
  const std::size_t E = layer_.dims.E;
  switch (layer_.block->mixture->routing.score) {
  case RouterScore::softmax:
    for (std::size_t first = 0; first < y.size(); first += E)
      through_softmax(&y[first], E, &variance[first]);
    break;
  case RouterScore::sigmoid:
    for (std::size_t i = 0; i < y.size(); ++i) variance[i] *= squared(y[i] * (1 - y[i]));
    break;
  case RouterScore::sqrt_softplus:
    for (std::size_t i = 0; i < y.size(); ++i)
      variance[i] *= squared((1 - std::exp(-squared(y[i]))) / (2 * y[i]));
    break;
  case RouterScore::logits:
    break;
  }
  return variance;
}

/// Of the weights of a token's chosen experts, from their scores.
StageNumbers Variances::of_expert_weights() const {
  const Routing& routing = layer_.block->mixture->routing;
  const StageNumbers &scores = values_.at(Stage::router_scores),
                     &of_scores = variances_.at(Stage::router_scores),
                     &experts = values_.at(Stage::experts),
                     &weights = values_.at(Stage::expert_weights);
  const std::size_t n = layer_.dims.n, E = layer_.dims.E;
  StageNumbers variance(experts.size());
  for (std::size_t first = 0; first < experts.size(); first += n) {
    double sum = 0, of_sum = 0;
    for (std::size_t j = first; j < first + n; ++j) {
      const std::size_t at = first / n * E + static_cast<std::size_t>(experts[j]);
      sum += scores[at], of_sum += of_scores[at], variance[j] = of_scores[at];
    }
    // Without the factor, which multiplies afterwards.
    const auto share = [&](std::size_t j) {
      return weights[j] / routing.factor_of(static_cast<std::size_t>(experts[j]));
    };
    if (routing.weight == ExpertWeight::renormalised)
      for (std::size_t j = first; j < first + n; ++j)
        variance[j] = (variance[j] + squared(share(j)) * of_sum) / squared(sum);
    if (routing.weight == ExpertWeight::softmax_chosen) {
      std::vector<double> shares(n);
      for (std::size_t j = 0; j < n; ++j) shares[j] = share(first + j);
      through_softmax(shares.data(), n, &variance[first]);
    }
  }
  for (std::size_t j = 0; j < variance.size(); ++j)
    variance[j] *= squared(routing.factor_of(static_cast<std::size_t>(experts[j])));
  return variance;
}

/// Of the products of each token with its chosen experts' maps; `x` are what all of them read, or
/// what each made before.
StageNumbers Variances::of_expert_products(Stage from, const std::vector<LinearMap>& maps,
                                           const StageNumbers& y) const {
  const StageNumbers &x = values_.at(from), &of_x = variances_.at(from),
                     &experts = values_.at(Stage::experts);
  const std::size_t n = layer_.dims.n, in = maps[0].in(), out = maps[0].out();
  const bool is_shared = x.size() / in * n == experts.size() && from != Stage::mlp_act;
  StageNumbers variance(y.size());
  for (std::size_t j = 0; j < experts.size(); ++j) {
    const auto row = [&](const StageNumbers& all, std::size_t width, std::size_t number) {
      const auto first = all.begin() + static_cast<std::ptrdiff_t>(number * width);
      return StageNumbers(first, first + static_cast<std::ptrdiff_t>(width));
    };
    const std::size_t input = is_shared ? j / n : j;
    const StageNumbers own =
        of_product(row(x, in, input), row(of_x, in, input),
                   maps[static_cast<std::size_t>(experts[j])].W, row(y, out, j));
    std::ranges::copy(own, variance.begin() + static_cast<std::ptrdiff_t>(j * out));
  }
  return variance;
}

/// Of act(pre) · up, of experts or shared ones.
StageNumbers Variances::of_gated(Activation activation, std::size_t width, Stage pre, Stage up,
                                 bool is_gated) {
  StageNumbers act = values_.at(pre), variance = variances_.at(pre);
  through_activation(activation, width, act, variance);
  if (!is_gated) return variance;
  const StageNumbers &factor = values_.at(up), &of_factor = variances_.at(up);
  const double more = layer_.block->mixture->form.up_plus_one && pre == Stage::mlp_pre ? 1 : 0;
  keep(variance, act);
  for (std::size_t i = 0; i < act.size(); ++i)
    variance[i] = variance[i] * squared(factor[i] + more) + squared(act[i]) * of_factor[i];
  return variance;
}

/// Of the weighted sum of the chosen experts' results.
StageNumbers Variances::of_expert_sum() const {
  const StageNumbers &results = values_.at(Stage::expert_out),
                     &of_results = variances_.at(Stage::expert_out),
                     &weights = values_.at(Stage::expert_weights),
                     &of_weights = variances_.at(Stage::expert_weights);
  const Mixture& mixture = *layer_.block->mixture;
  const bool weighs = !mixture.routing.weighs_input;
  const std::size_t width = layer_.dims.d_out, n = layer_.dims.n;
  StageNumbers variance(results.size() / n);
  for (std::size_t i = 0; i < variance.size(); ++i)
    for (std::size_t j = 0; j < n; ++j) {
      const std::size_t slot = i / width * n + j, at = slot * width + i % width;
      variance[i] += weighs ? squared(weights[slot]) * of_results[at] +
                                  squared(results[at]) * of_weights[slot] +
                                  kept_.of(weights[slot] * results[at])
                            : of_results[at];
    }
  return variance;
}

/// Of what the chosen experts and the shared ones add together.
StageNumbers Variances::of_mixture_sum() const {
  const Mixture& mixture = *layer_.block->mixture;
  StageNumbers variance =
      mixture.norm_of_sum.present() ? variances_.at(Stage::experts_norm) : of_expert_sum();
  if (!mixture.shared.present()) return variance;
  const Stage last = mixture.norm_of_shared.present() ? Stage::shared_norm : Stage::shared_out;
  const StageNumbers &shared = values_.at(last), &of_shared = variances_.at(last);
  const bool has_gate = mixture.shared_gate.present();
  const std::size_t width = layer_.dims.d_out;
  for (std::size_t i = 0; i < variance.size(); ++i) {
    const double gate = has_gate ? values_.at(Stage::shared_gate)[i / width] : 1,
                 of_gate = has_gate ? variances_.at(Stage::shared_gate)[i / width] : 0;
    variance[i] += squared(gate) * of_shared[i] + squared(shared[i]) * of_gate;
  }
  return variance;
}

/// Of σ(mlp_x W_shared_gate).
StageNumbers Variances::of_shared_gate() const {
  const LinearMap& gate = layer_.block->mixture->shared_gate;
  const StageNumbers &x = values_.at(Stage::mlp_x), &y = values_.at(Stage::shared_gate);
  StageNumbers variance =
      of_product(x, variances_.at(Stage::mlp_x), gate.W, multiplied(x, gate.W, gate.b));
  for (std::size_t i = 0; i < y.size(); ++i) variance[i] *= squared(y[i] * (1 - y[i]));
  return variance;
}

StageNumbers Variances::of_mixture(Stage stage) {
  using enum Stage;
  const Mixture& mixture = *layer_.block->mixture;
  const FeedForward& shared = mixture.shared;
  const auto product = [&](Stage from, const LinearMap& map) {
    return of_product(values_.at(from), variances_.at(from), map.W, values_.at(stage));
  };
  const auto of_experts = [&](Stage from, const std::vector<LinearMap>& maps) {
    return of_expert_products(from, maps, values_.at(stage));
  };
  const auto norm = [&](const Norm& of) {
    return of_norm(of, values_.at(input(stage)), variances_.at(input(stage)));
  };
  switch (stage) {
  case router_x:
    return norm(mixture.router_norm);
  case experts_x:
    return norm(mixture.experts_norm);
  case experts_norm:
    return norm(mixture.norm_of_sum);
  case shared_norm:
    return norm(mixture.norm_of_shared);
  case experts_sum:
    return of_expert_sum();
  case router:
    return product(input(stage), mixture.router);
  case router_scores:
    return of_router_scores();
  case expert_weights:
    return of_expert_weights();
  case mlp_pre:
    return of_experts(input(stage), mixture.in);
  case mlp_up:
    return of_experts(input(stage), mixture.up);
  case mlp_act:
    return of_gated(mixture.form.activation, layer_.dims.d_ff, mlp_pre, mlp_up, mixture.gated());
  case expert_out:
    return of_experts(mlp_act, mixture.out);
  case shared_pre:
    return product(mlp_x, shared.in);
  case shared_up:
    return product(mlp_x, shared.up);
  case shared_act:
    return of_gated(shared.activation, layer_.dims.I_shared, shared_pre, shared_up, shared.gated());
  case shared_out:
    return product(shared_act, shared.out);
  case shared_gate:
    return of_shared_gate();
  case mlp_out:
    return of_mixture_sum();
  default:
    fail("{} is not a step of a mixture", name_of(stage));
  }
}

} // namespace mha
