// Variances of maps and of the heads' results, computed by rows.

#include <mha/compare/spread_maps.hpp>
#include <mha/naming/forms.hpp>
#include <mha/forward/gate.hpp>
#include <mha/layer/graph.hpp>

#include <algorithm>
#include <functional>

namespace mha {

namespace {

using Rows = MapVariances::Rows;

void for_each_rows(const Dims& d, std::size_t together,
                   const std::function<void(const Rows&)>& use) {
  for (std::size_t b = 0; b < d.B; ++b)
    for (std::size_t h = 0; h < d.H; ++h)
      for (std::size_t first = 0; first < d.T; first += together)
        use({b, h, first, std::min(together, d.T - first)});
}

Tensor tensor_of(const StageNumbers& numbers, DType dtype, const Shape& shape) {
  if (dtype == DType::f64) return Tensor::of<double>(shape, numbers);
  const std::vector<float> single(numbers.begin(), numbers.end());
  return Tensor::of<float>(shape, single);
}

/// The variance of weights · v in some rows of a head.
Squares of_products(const MapVariances::Found& weights, const Squares& squares, const Squares& of_v,
                    const Spacing& summed, std::size_t threads) {
  Squares a = weights.values;
  for (double& w : a.numbers) w *= w;
  return variance_of_product(a, weights.variances, squares, &of_v, summed, threads);
}

} // namespace

/// The layer with the maps' inputs given, so that some rows of a map can be computed alone.
Layer Variances::with_tokens() const {
  Layer given = layer_;
  for (const auto& [stage, numbers] : values_)
    if (is_of(stage, {Section::heads}) && !given.has_given(stage)) {
      given.given[index_of(stage)] =
          tensor_of(numbers, layer_.dtype, form_of(stage, layer_.dims).stored);
      given.given_set.add(stage);
    }
  return given;
}

/// The factors of scores; nothing if a later map is given.
std::pair<FactorRows, FactorRows> Variances::factors(Stage last) {
  if (layer_.has_given(last) || layer_.has_given(Stage::scores) ||
      (last != Stage::scores &&
       !contains(ancestors_of(layer_, last, layer_.given_set), Stage::scores)))
    return {};
  const std::vector<Stage> inputs = inputs_of(layer_, Stage::scores);
  const auto vectors = [&](Stage stage) {
    find(stage);
    return FactorRows{&values_.at(stage), &variances_.at(stage)};
  };
  const FactorRows q = vectors(inputs.at(0));
  return {q, vectors(inputs.at(1))};
}

StageNumbers Variances::of_maps(Stage stage) {
  const Dims& d = layer_.dims;
  const auto [q, k] = factors(stage);
  const Layer given = with_tokens();
  MapVariances maps(given, by_, stage, q, k, threads_, maps_);
  const std::size_t cols = info_of(stage).kind == Kind::row ? 1 : d.S_all;
  StageNumbers result(d.B * d.H * d.T * cols);
  for_each_rows(d, maps.rows_together(), [&](const Rows& rows) {
    std::ranges::copy(maps.of(rows).variances.numbers,
                      &result[((rows.batch * d.H + rows.head) * d.T + rows.first) * cols]);
  });
  return result;
}

StageNumbers Variances::of_heads() {
  const Dims& d = layer_.dims;
  if (layer_.has_given(Stage::concat) && last_of_heads(layer_) == Stage::head_out)
    return of_given(Stage::concat); // the same numbers
  const Stage v_of = inputs_of(layer_, Stage::head_out).at(1);
  find(v_of);
  const auto [q, k] = factors(Stage::weights);
  const StageNumbers &v = values_.at(v_of), &variance_of_v = variances_.at(v_of),
                     &y = values_.at(Stage::head_out);
  const Layer given = with_tokens();
  MapVariances maps(given, by_, Stage::weights, q, k, threads_, maps_);
  StageNumbers result(y.size());
  for_each_rows(d, maps.rows_together(), [&](const Rows& rows) {
    const std::size_t g = kv_head_of(layer_, rows.head);
    Squares squares(d.S_all, d.d_v), of_v(d.S_all, d.d_v);
    for (std::size_t j = 0; j < d.S_all; ++j)
      for (std::size_t c = 0; c < d.d_v; ++c) {
        const std::size_t at = ((rows.batch * d.S_all + j) * d.H_kv + g) * d.d_v + c;
        squares.row(j)[c] = v[at] * v[at], of_v.row(j)[c] = variance_of_v[at];
      }
    const Squares out = of_products(maps.of(rows), squares, of_v, summed_, threads_);
    for (std::size_t i = 0; i < rows.count; ++i)
      for (std::size_t c = 0; c < d.d_v; ++c) {
        const std::size_t at = ((rows.batch * d.T + rows.first + i) * d.H + rows.head) * d.d_v + c;
        // Equal weights are rounded equally.
        result[at] = out.row(i)[c] + mha::of_sum(summed_, d.S_all, 0, y[at]) +
                     kept_.at_worst(y[at]) + kept_.of(y[at]);
      }
  });
  return result;
}

/// The heads' results times act(gate), whose slope is taken between two numbers close to it.
StageNumbers Variances::of_gate() {
  const std::size_t d_v = layer_.dims.d_v, d_gate = layer_.dims.d_gate;
  const Stage before = input(Stage::gated);
  const StageNumbers &z = values_.at(before), &of_z = variances_.at(before),
                     &g = values_.at(Stage::gate), &of_g = variances_.at(Stage::gate);
  StageNumbers result(z.size());
  for (std::size_t i = 0; i < z.size(); ++i) {
    const std::size_t at = d_gate == 1 ? i / d_v : i;
    const auto act = [&](double x) { return activated(layer_.settings.gate_activation, x); };
    constexpr double step = 1e-4;
    const double slope = (act(g[at] + step) - act(g[at] - step)) / (2 * step), a = act(g[at]);
    result[i] = a * a * of_z[i] + z[i] * z[i] * (slope * slope * of_g[at] + kept_.of(a));
  }
  return result;
}

/// Each head's row of what W_o multiplies, times its rows of W_o.
StageNumbers Variances::of_results() {
  const Dims& d = layer_.dims;
  const Stage from = last_of_heads(layer_);
  find(from);
  const StageNumbers &z = values_.at(from), &of_z = variances_.at(from),
                     &y = values_.at(Stage::head_result);
  StageNumbers result(y.size());
  for_each_rows(d, d.T, [&](const Rows& rows) {
    Squares a(d.T, d.d_v), variance(d.T, d.d_v), squares(d.d_v, d.d_out);
    for (std::size_t i = 0; i < d.T; ++i)
      for (std::size_t c = 0; c < d.d_v; ++c) {
        const std::size_t at = ((rows.batch * d.T + i) * d.H + rows.head) * d.d_v + c;
        a.row(i)[c] = z[at] * z[at], variance.row(i)[c] = of_z[at];
      }
    for (std::size_t c = 0; c < d.d_v; ++c)
      for (std::size_t i = 0; i < d.d_out; ++i) {
        const std::size_t row = rows.head * d.d_v + c;
        const double w =
            layer_.W_o.empty() ? (row == i ? 1 : 0) : value_at(layer_.W_o, row * d.d_out + i);
        squares.row(c)[i] = w * w;
      }
    const Squares out = variance_of_product(a, variance, squares, nullptr, summed_, threads_);
    const std::size_t first = (rows.batch * d.H + rows.head) * d.T * d.d_out;
    for (std::size_t i = 0; i < d.T * d.d_out; ++i)
      result[first + i] = out.numbers[i] + kept_.of(y[first + i]);
  });
  return result;
}

} // namespace mha
