#pragma once
// The results of a token's experts, each with its weight: the parts of its feed-forward.

#include <mha/layer/layer.hpp>
#include <mha/model/frozen_norm.hpp>

#include <cstddef>
#include <optional>
#include <set>

namespace mha {

/// The experts' weighted results of a layer's clean run. mlp_out is their sum, and what shared
/// experts add.
class WeightedExperts {
public:
  /// Computes the layer, which has a mixture.
  WeightedExperts(const Layer& layer, std::size_t threads);

  /// The experts that some token chose, without padding.
  std::set<std::size_t> chosen() const;
  /// What an expert adds to mlp_out in row b · T + t; nothing where the token did not choose it.
  std::optional<DoubleRow> of(std::size_t expert, std::size_t row) const;
  /// A row of mlp_out.
  DoubleRow whole(std::size_t row) const;
  /// mlp_out without an expert's part: B, T, d_out.
  Tensor mlp_without(std::size_t expert) const;

private:
  const Layer& layer_;
  Tensor experts_, weights_, results_, mlp_out_;
};

} // namespace mha
