#pragma once
// Variances of each number of a stage by rounding: what another right computation of a layer may be
// off by, to first order, from the stages that the layer is given on.

#include <mha/compare/spread_steps.hpp>
#include <mha/layer/layer.hpp>

#include <map>
#include <utility>
#include <vector>

namespace mha {

/// A number for each element of a stage.
using StageNumbers = std::vector<double>;

/// What another implementation rounds.
struct RoundedSteps {
  DType kept = DType::f32; ///< what it keeps its steps in; a half type's sums are float32's
  double coarsest = 0;     ///< what it rounds to at least, as `half` of a Spacing
  bool scores = true; ///< scores … masked, too; else those are float32's, as in fused kernels
  /// Given stages that are off already: by their storing, and by so much relative to the stage.
  std::map<Stage, double> off = {};
  /// Given stages that were typed: half of their last digit.
  std::map<Stage, double> typed = {};
  /// The variance of what enters the layer (X, or the model's stream), as it lies there; empty: 0.
  std::vector<double> stream = {};
};

/// Of what steps are kept in, and of sums.
std::pair<Spacing, Spacing> spacings_of(const RoundedSteps& steps);

/// Queries or keys as the products read them (B, T or S, heads · width), and their variances; null:
/// no product reads them.
struct FactorRows {
  const std::vector<double>*values = nullptr, *variances = nullptr;
};

/// What maps of a small layer have in common: their values, and the variances of queries times
/// keys.
struct KeptMaps {
  std::map<Stage, Tensor> values;
  std::vector<double> products;
};

/// The variances of a layer's stages. Every rounding is at random, so errors add as squares:
///
///   y = Σ a b          σ² = Σ σ_a² b² + a² σ_b², and what the sum itself is off by
///   y = f(a)           σ² = f′(a)² σ_a²
///   norms, softmax     by their derivatives, which tie a row's numbers together
///   y is kept          σ² + u² ⌊y⌋² / 3, ⌊y⌋ the power of two at or below |y|
///
/// Given stages and weights whose numbers are of the kept type already are exact.
class Variances {
public:
  /// `layer` in row form, with a batch axis; it must outlive this.
  Variances(const Layer& layer, RoundedSteps by, std::size_t threads);

  /// Of a stage that the layer has and can compute, in the form of Layer::given.
  StageNumbers of(Stage stage);

private:
  void prepare(Stage last);
  void find(Stage stage);
  StageNumbers found(Stage stage);
  StageNumbers before_kept(Stage stage);
  StageNumbers around_attention(Stage stage);
  StageNumbers of_given(Stage stage) const;
  StageNumbers of_stream(const Tensor& stream) const;
  StageNumbers of_tensor(const Tensor& tensor) const;
  StageNumbers of_embedding() const;
  StageNumbers of_product(const StageNumbers& x, StageNumbers variance, const Tensor& W,
                          const StageNumbers& y) const;
  StageNumbers multiplied(const StageNumbers& x, const Tensor& W, const Tensor& b) const;
  StageNumbers of_projection(Stage stage);
  StageNumbers of_compressed(Stage stage);
  StageNumbers of_keys(StageNumbers variance) const;
  StageNumbers of_norm(const Norm& norm, const StageNumbers& x, StageNumbers variance) const;
  StageNumbers of_head_norm(Stage stage);
  StageNumbers of_rotation(Stage stage);
  StageNumbers of_appended(Stage stage);
  void through_activation(Activation activation, std::size_t n, StageNumbers& x,
                          StageNumbers& variance) const;
  StageNumbers of_activation();
  StageNumbers of_sum(Stage stage);
  StageNumbers of_logits();
  Layer with_tokens() const;
  std::pair<FactorRows, FactorRows> factors(Stage last);
  StageNumbers of_maps(Stage stage);
  StageNumbers of_heads();
  StageNumbers of_results();
  void keep(StageNumbers& variance, const StageNumbers& y) const;
  Stage input(Stage stage) const;
  bool holds(DType dtype) const;
  bool is_exact(const Tensor& tensor) const;

  const Layer& layer_;
  RoundedSteps by_;
  Spacing kept_, summed_;
  std::size_t threads_;
  std::map<Stage, StageNumbers> values_,
      variances_; ///< of token stages; variances of small maps, too
  KeptMaps maps_;
};

} // namespace mha
