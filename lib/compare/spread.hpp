#pragma once
// Variances of the numbers of a stage by rounding: the first-order error of another correct
// computation of the layer, from its given stages on.

#include <mha/compare/spread_steps.hpp>
#include <mha/layer/layer.hpp>

#include <map>
#include <utility>
#include <vector>

namespace mha {

/// A number for each element of a stage.
using StageNumbers = std::vector<double>;

/// The roundings of another implementation.
struct RoundedSteps {
  DType kept = DType::f32; ///< the type of its steps; in a half type, sums are float32
  double coarsest = 0;     ///< the least rounding, as `half` of a Spacing
  /// Whether scores … masked are also kept in that type, not in float32 as in fused kernels.
  bool scores = true;
  /// Given stages with an error of their own: of their storing, and this much relative to the
  /// stage.
  std::map<Stage, double> off = {};
  /// Given stages that were typed, with half of their last digit.
  std::map<Stage, double> typed = {};
  /// The variance of the layer's input (X, or the model's stream), in its order; 0 if empty.
  std::vector<double> stream = {};
};

/// The spacings of kept steps and of sums.
std::pair<Spacing, Spacing> spacings_of(const RoundedSteps& steps);

/// Queries or keys in the order in which products read them (B, T or S, heads · width), and their
/// variances; null if no product reads them.
struct FactorRows {
  const std::vector<double>*values = nullptr, *variances = nullptr;
};

/// Values shared by the maps of a small layer: the maps, and the variances of queries times keys.
struct KeptMaps {
  std::map<Stage, Tensor> values;
  std::vector<double> products;
};

/// The variances of a layer's stages. Roundings are independent, so variances add:
///
///   y = Σ a b          σ² = Σ σ_a² b² + a² σ_b², plus the sum's own rounding
///   y = f(a)           σ² = f′(a)² σ_a²
///   norms, softmax     by their derivatives, which tie a row's numbers together
///   y is kept          σ² + u² ⌊y⌋² / 3, ⌊y⌋ the power of two at or below |y|
///
/// Given stages and weights whose numbers the kept type holds are exact.
class Variances {
public:
  /// `layer` in row form, with a batch axis; it must outlive this.
  Variances(const Layer& layer, RoundedSteps by, std::size_t threads);

  /// The variances of a stage that the layer can compute, in the form of Layer::given.
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
  StageNumbers in_inner_steps(StageNumbers variance, const StageNumbers& y,
                              std::size_t width) const;
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
  StageNumbers of_mixture(Stage stage);
  StageNumbers of_router_scores() const;
  StageNumbers of_expert_weights() const;
  StageNumbers of_expert_products(Stage from, const std::vector<LinearMap>& maps,
                                  const StageNumbers& y) const;
  StageNumbers of_gated(Activation activation, std::size_t width, Stage pre, Stage up,
                        bool is_gated);
  StageNumbers of_expert_sum() const;
  StageNumbers of_mixture_sum() const;
  StageNumbers of_shared_gate() const;
  StageNumbers of_supplement();
  StageNumbers of_layer_embedding() const;
  StageNumbers of_sum(Stage stage);
  StageNumbers of_logits();
  Layer with_tokens() const;
  std::pair<FactorRows, FactorRows> factors(Stage last);
  StageNumbers of_maps(Stage stage);
  StageNumbers of_heads();
  StageNumbers of_gate();
  StageNumbers of_results();
  void keep(StageNumbers& variance, const StageNumbers& y) const;
  Stage input(Stage stage) const;
  bool holds(DType dtype) const;
  bool is_exact(const Tensor& tensor) const;

  const Layer& layer_;
  RoundedSteps by_;
  Spacing kept_, summed_;
  std::size_t threads_;
  std::map<Stage, StageNumbers> values_;    ///< of token stages
  std::map<Stage, StageNumbers> variances_; ///< of token stages and small maps
  KeptMaps maps_;
};

} // namespace mha
