#include <mha/model/direct_effect.hpp>

#include <mha/model/frozen_norm.hpp>
#include <mha/observe/trace.hpp>

#include <algorithm>
#include <cmath>

namespace mha {

namespace {

/// A column of the unembedding in double.
DoubleRow column_of(const Tensor& W, std::size_t column) {
  return row_of(convert(columns_when_read(W, column, 1), DType::f64), 0, W.shape()[0]);
}

/// The mean of all columns.
DoubleRow mean_column(const Tensor& W) {
  const std::size_t rows = W.shape()[0], columns = W.shape()[1], together = 4096;
  DoubleRow sum(rows);
  for (std::size_t first = 0; first < columns; first += together) {
    const std::size_t n = std::min(together, columns - first);
    const Tensor part = convert(columns_when_read(W, first, n), DType::f64);
    for (std::size_t i = 0; i < rows; ++i)
      for (std::size_t j = 0; j < n; ++j) sum[i] += part.as<double>()[i * n + j];
  }
  for (double& x : sum) x /= static_cast<double>(columns);
  return sum;
}

} // namespace

DirectEffects::DirectEffects(const Layer& ends, const EffectsRequest& request,
                             const std::function<std::size_t(std::size_t)>& answer)
    : request_(request) {
  const ModelHead& lm_head = ends.ends->head;
  if (!lm_head.present() || lm_head.dense.present()) return;
  known_ = true;
  const Norm& norm = ends.ends->final;
  const std::size_t d = ends.dims.d_model, T = ends.dims.T;
  const DoubleRow centre = request.centre ? mean_column(lm_head.decoder.W) : DoubleRow();
  double mean_bias = 0;
  const Tensor& b = lm_head.decoder.b;
  for (std::size_t i = 0; request.centre && i < b.count(); ++i)
    mean_bias += value_at(b, i) / static_cast<double>(b.count());
  for (std::size_t i = 0; i < request.places.size(); ++i) {
    const auto& [batch, position] = request.places[i];
    DoubleRow u = column_of(lm_head.decoder.W, answer(i));
    double bias = b.empty() ? 0 : value_at(b, answer(i));
    if (const std::optional<int> versus = request.versus_at(i)) {
      const auto other = static_cast<std::size_t>(*versus);
      const DoubleRow column = column_of(lm_head.decoder.W, other);
      for (std::size_t k = 0; k < d; ++k) u[k] -= column[k];
      if (!b.empty()) bias -= value_at(b, other);
    }
    for (std::size_t k = 0; request.centre && k < d; ++k) u[k] -= centre[k];
    bias -= mean_bias;
    for (double& x : u) x *= lm_head.scale;
    lm_head_bias_.push_back(bias * lm_head.scale);
    double of_norm = 0;
    for (std::size_t k = 0; !norm.bias.empty() && k < d; ++k)
      of_norm += value_at(norm.bias, k) * u[k];
    final_bias_.push_back(of_norm);
    // With frozen statistics the norm is a linear map N: ⟨N part, u⟩ = ⟨part, Nᵀ u⟩, and Nᵀ u is
    // the same for every part.
    fold_last_norm(row_of(ends.ends->stream, batch * T + position, d), norm, u);
    u_.push_back(std::move(u));
  }
}

void DirectEffects::fold_last_norm(const DoubleRow& stream, const Norm& norm, DoubleRow& u) {
  if (norm.kind == InputNorm::none) return;
  const NormStatistics statistics = statistics_of(norm, stream);
  const DoubleRow gain = vector_of(norm.weight, u.size(), norm.one_plus ? 0 : 1);
  double mean = 0;
  for (std::size_t k = 0; k < u.size(); ++k) {
    u[k] *= (gain[k] + (norm.one_plus ? 1 : 0)) / statistics.divisor;
    mean += u[k] / static_cast<double>(u.size());
  }
  for (double& x : u) x -= norm.kind == InputNorm::layer ? mean : 0; // centring is symmetric
}

void DirectEffects::enter(const Layer& layer, const ChosenByTokens* choice) {
  if (!known_) return;
  const TransformerBlock& block = *layer.block;
  if (block.shape == BlockShape::post || block.post_block_norm.present()) {
    known_ = false; // the sum itself is normalised
    return;
  }
  const std::size_t d = layer.dims.d_out, T = layer.dims.T, H = layer.dims.H;
  const bool has_mlp = block.has_feed_forward();
  const Stage mlp = block.post_mlp_norm.present() ? Stage::mlp_add : Stage::mlp_out;
  std::vector<Stage> stages{Stage::head_result, Stage::output};
  if (has_mlp) stages.push_back(mlp);
  const bool has_supplement = block.supplement.present();
  if (has_supplement) stages.push_back(Stage::layer_add);
  const Trace values = trace(layer, stages, {}, request_.threads);
  const Norm& norm_after = block.post_attention_norm;
  heads_.clear(), bias_.clear(), mlp_.clear(), layer_add_.clear(), layer_input_.clear();
  for (const auto& [batch, position] : request_.places) {
    const std::size_t row = batch * T + position;
    const NormStatistics statistics =
        statistics_of(norm_after, row_of(values.value(Stage::output), row, d));
    std::vector<DoubleRow>& heads = heads_.emplace_back();
    for (std::size_t h = 0; h < H; ++h)
      heads.push_back(
          frozen(norm_after, statistics,
                 row_of(values.value(Stage::head_result), (batch * H + h) * T + position, d)));
    DoubleRow bias = frozen(norm_after, statistics, vector_of(layer.b_o, d, 0));
    for (std::size_t k = 0; !norm_after.bias.empty() && k < d; ++k)
      bias[k] += value_at(norm_after.bias, k);
    bias_.push_back(std::move(bias));
    mlp_.push_back(has_mlp ? row_of(values.value(mlp), row, d) : DoubleRow());
    layer_add_.push_back(has_supplement ? row_of(values.value(Stage::layer_add), row, d)
                                        : DoubleRow());
    layer_input_.push_back(row_of(layer.X, row, d));
  }
  experts_.clear();
  // What a patch of the sum adds belongs to none of the experts.
  const bool is_sum = !layer.patches.has(Stage::mlp_out) && !layer.patches.has(Stage::mlp_add);
  if (choice && is_sum) enter_experts(layer, *choice);
}

void DirectEffects::enter_experts(const Layer& layer, const ChosenByTokens& choice) {
  const Dims& dims = layer.dims;
  const WeightedExperts parts(layer, choice, request_.threads);
  for (const auto& [batch, position] : request_.places) {
    const std::size_t row = batch * dims.T + position;
    const Norm& norm = layer.block->post_mlp_norm;
    const NormStatistics statistics = statistics_of(norm, parts.whole(row));
    std::vector<DoubleRow>& experts = experts_.emplace_back(dims.E);
    for (std::size_t e = 0; e < dims.E; ++e)
      if (std::optional<DoubleRow> part = parts.of(e, row))
        experts[e] = frozen(norm, statistics, std::move(*part));
  }
}

double DirectEffects::dot_with_direction(const DoubleRow& part, std::size_t place) const {
  double sum = 0;
  for (std::size_t k = 0; k < part.size(); ++k) sum += part[k] * u_[place][k];
  return sum;
}

std::optional<double> DirectEffects::of(Component part, std::optional<std::size_t> index,
                                        std::size_t place) const {
  if (!known_) return std::nullopt;
  switch (part) {
  case Component::head:
    return dot_with_direction(heads_[place][*index], place);
  case Component::attention: {
    double sum = 0;
    for (const DoubleRow& row : heads_[place]) sum += dot_with_direction(row, place);
    return sum;
  }
  case Component::mlp:
    return dot_with_direction(mlp_[place], place);
  case Component::layer_add:
    return dot_with_direction(layer_add_[place], place);
  case Component::expert:
    if (experts_.empty()) return std::nullopt;
    return dot_with_direction(experts_[place][*index], place);
  case Component::embed:
    return dot_with_direction(layer_input_[place], place);
  case Component::attention_bias:
    return dot_with_direction(bias_[place], place);
  case Component::final_bias:
    return final_bias_[place];
  case Component::head_bias:
    return lm_head_bias_[place];
  case Component::set: // its places depend on each other
    return std::nullopt;
  }
  return std::nullopt;
}

} // namespace mha
