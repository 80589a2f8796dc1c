#pragma once
// The results of a token's experts, each with its weight: the parts of its feed-forward.

#include <mha/layer/layer.hpp>
#include <mha/model/frozen_norm.hpp>

#include <cstddef>
#include <optional>
#include <set>

namespace mha {

/// The choice of experts in a layer's clean run, and their weights.
class ChosenByTokens {
public:
  /// Computes the choice of the layer, which has a mixture.
  ChosenByTokens(const Layer& layer, std::size_t threads);

  /// The experts that some token chose, without padding.
  std::set<std::size_t> chosen() const;
  /// expert_weights, 0 where a token chose this expert: B, T, n.
  Tensor weights_without(std::size_t expert) const;
  /// An expert's place in the choice of row b · T + t; nothing where it is not chosen.
  std::optional<std::size_t> place_of(std::size_t expert, std::size_t row) const;
  double weight(std::size_t place) const { return value_at(weights_, place); }

private:
  Dims dims_;
  std::vector<std::size_t> lengths_; ///< of the texts
  Tensor experts_, weights_;
};

/// What each expert adds to mlp_out. A norm of their sum is linear with its statistics frozen.
class WeightedExperts {
public:
  /// Computes the mixture of the layer.
  WeightedExperts(const Layer& layer, const ChosenByTokens& choice, std::size_t threads);

  /// What an expert adds in row b · T + t; nothing where the token did not choose it.
  std::optional<DoubleRow> of(std::size_t expert, std::size_t row) const;
  /// The row of mlp_out: the sum of its experts, and what shared ones add.
  DoubleRow whole(std::size_t row) const;

private:
  const ChosenByTokens& choice_;
  bool weighs_input_;
  std::size_t width_;
  const Norm& norm_of_sum_;
  Tensor results_, sum_, mlp_out_; ///< the sum where a norm follows it
};

} // namespace mha
