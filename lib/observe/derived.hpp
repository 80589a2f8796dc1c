#pragma once
// Derived stages: maps that are made of several stages, heads or layers.

#include <mha/layer/dims.hpp>
#include <mha/observe/compute.hpp>

#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace mha {

enum class DerivedKind : std::uint8_t {
  weights_mean,
  value_norms,
  value_norms_sum,
  rollout,
  received,
  divergence,
};

/// A row of the table of kinds: the axes of its matrices, one matrix or one per head, and its
/// formula.
struct DerivedInfo {
  DerivedKind kind;
  std::string_view name;
  Axis rows, cols;       ///< of a matrix: queries, keys or heads
  bool of_heads = false; ///< a map for each head
  std::string_view formula;
};
/// All of them.
std::span<const DerivedInfo> derived_stages();
/// The kind with this name; nullptr if there is none.
const DerivedInfo* find_derived(std::string_view name);

/// Computes one kind layer by layer, in float64 of the layer's own stages.
///
/// weights_mean (T × S): mean over heads of α.
/// value_norms (H × T × S): ‖α_ts v_s W_o[h]‖, v with its bias (Kobayashi et al. 2020).
/// value_norms_sum (T × S): ‖Σ_h α_ts v_s W_o[h]‖: the norm of the sum, not the sum of norms.
/// rollout (T × T): R_l = rownorm(mean_h α_l + I) R_{l−1}, R_{−1} = I (Abnar & Zuidema 2020).
/// received (H × S): mean over the rows that attend of α_ts: what each key gets.
/// divergence (H × H): mean over the rows that attend of the Jensen–Shannon divergence of two
/// heads' rows, base 2, each row divided by its sum (Clark et al. 2019).
class DerivedMaps {
public:
  explicit DerivedMaps(DerivedKind kind, std::size_t threads = 0)
      : kind_(kind), threads_(threads) {}

  /// The next layer's, batch axis in front where the layer has one; zeros in the padding. A rollout
  /// wants every layer from the first on, in order. Throws Error where the layer lacks the stages,
  /// where the result does not fit into memory, and for a rollout where keys are not the queries.
  /// `by`: how the layer is computed.
  Tensor next(const Layer& layer, const ComputeLayer& by = compute);

private:
  DerivedKind kind_;
  std::size_t threads_ = 0;
  std::vector<std::vector<double>> rollout_; ///< of each batch item, T × T
};

} // namespace mha
