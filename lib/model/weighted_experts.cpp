#include <mha/model/weighted_experts.hpp>

#include <mha/observe/trace.hpp>

namespace mha {

WeightedExperts::WeightedExperts(const Layer& layer, std::size_t threads) : layer_(layer) {
  using enum Stage;
  const Trace traced = trace(layer, {experts, expert_weights, expert_out, mlp_out}, {}, threads);
  experts_ = traced.value(experts), weights_ = traced.value(expert_weights);
  results_ = traced.value(expert_out), mlp_out_ = traced.value(mlp_out);
}

std::set<std::size_t> WeightedExperts::chosen() const {
  const Dims& d = layer_.dims;
  std::set<std::size_t> list;
  for (std::size_t b = 0; b < d.B; ++b)
    for (std::size_t i = b * d.T * d.n; i < (b * d.T + layer_.length_of(b)) * d.n; ++i)
      list.insert(static_cast<std::size_t>(value_at(experts_, i)));
  return list;
}

std::optional<DoubleRow> WeightedExperts::of(std::size_t expert, std::size_t row) const {
  const std::size_t n = layer_.dims.n, width = results_.count() / experts_.count();
  for (std::size_t j = row * n; j < (row + 1) * n; ++j) {
    if (value_at(experts_, j) != static_cast<double>(expert)) continue;
    // Where the weight is in the expert's input, its result has it.
    const double weight = layer_.block->mixture->routing.weighs_input ? 1 : value_at(weights_, j);
    DoubleRow part = row_of(results_, j, width);
    for (double& number : part) number *= weight;
    return part;
  }
  return std::nullopt;
}

DoubleRow WeightedExperts::whole(std::size_t row) const {
  return row_of(mlp_out_, row, mlp_out_.count() / (experts_.count() / layer_.dims.n));
}

Tensor WeightedExperts::mlp_without(std::size_t expert) const {
  const std::size_t rows = experts_.count() / layer_.dims.n, width = mlp_out_.count() / rows;
  std::vector<double> numbers(mlp_out_.count());
  for (std::size_t row = 0; row < rows; ++row) {
    const std::optional<DoubleRow> part = of(expert, row);
    for (std::size_t i = 0; i < width; ++i)
      numbers[row * width + i] = value_at(mlp_out_, row * width + i) - (part ? (*part)[i] : 0);
  }
  return convert(Tensor::of<double>(mlp_out_.shape(), numbers), mlp_out_.dtype());
}

} // namespace mha
