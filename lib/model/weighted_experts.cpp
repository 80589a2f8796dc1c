#include <mha/model/weighted_experts.hpp>

#include <mha/observe/trace.hpp>

namespace mha {

ChosenByTokens::ChosenByTokens(const Layer& layer, std::size_t threads) : dims_(layer.dims) {
  using enum Stage;
  for (std::size_t b = 0; b < dims_.B; ++b) lengths_.push_back(layer.length_of(b));
  const Trace traced = trace(layer, {experts, expert_weights}, {}, threads);
  experts_ = traced.value(experts), weights_ = traced.value(expert_weights);
}

std::set<std::size_t> ChosenByTokens::chosen() const {
  std::set<std::size_t> list;
  for (std::size_t b = 0; b < dims_.B; ++b)
    for (std::size_t i = b * dims_.T * dims_.n; i < (b * dims_.T + lengths_[b]) * dims_.n; ++i)
      list.insert(static_cast<std::size_t>(value_at(experts_, i)));
  return list;
}

Tensor ChosenByTokens::weights_without(std::size_t expert) const {
  std::vector<double> numbers(weights_.count());
  for (std::size_t i = 0; i < numbers.size(); ++i)
    numbers[i] = value_at(experts_, i) == static_cast<double>(expert) ? 0 : value_at(weights_, i);
  return convert(Tensor::of<double>({dims_.B, dims_.T, dims_.n}, numbers), weights_.dtype());
}

std::optional<std::size_t> ChosenByTokens::place_of(std::size_t expert, std::size_t row) const {
  for (std::size_t j = row * dims_.n; j < (row + 1) * dims_.n; ++j)
    if (value_at(experts_, j) == static_cast<double>(expert)) return j;
  return std::nullopt;
}

WeightedExperts::WeightedExperts(const Layer& layer, const ChosenByTokens& choice,
                                 std::size_t threads)
    : choice_(choice),
      weighs_input_(layer.block->mixture->routing.weighs_input),
      width_(layer.dims.d_out),
      norm_of_sum_(layer.block->mixture->norm_of_sum) {
  using enum Stage;
  std::vector<Stage> stages{expert_out, mlp_out};
  if (norm_of_sum_.present()) stages.push_back(experts_sum);
  const Trace traced = trace(layer, stages, {}, threads);
  results_ = traced.value(expert_out), mlp_out_ = traced.value(mlp_out);
  if (norm_of_sum_.present()) sum_ = traced.value(experts_sum);
}

std::optional<DoubleRow> WeightedExperts::of(std::size_t expert, std::size_t row) const {
  const std::optional<std::size_t> place = choice_.place_of(expert, row);
  if (!place) return std::nullopt;
  DoubleRow part = row_of(results_, *place, width_);
  // Where the weight is in the expert's input, its result has it.
  for (double& number : part) number *= weighs_input_ ? 1 : choice_.weight(*place);
  if (sum_.empty()) return part;
  return frozen(norm_of_sum_, statistics_of(norm_of_sum_, row_of(sum_, row, width_)),
                std::move(part));
}

DoubleRow WeightedExperts::whole(std::size_t row) const {
  return row_of(mlp_out_, row, width_);
}

} // namespace mha
