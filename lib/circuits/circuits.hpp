#pragma once
// Circuits of a head's weights, independent of any text (Elhage et al. 2021, "A Mathematical
// Framework for Transformer Circuits"): QK = W_q W_kᵀ decides which token attends to which, and OV
// = W_v W_o what is written for an attended token. Vectors are rows.

#include <mha/circuits/projections.hpp>

#include <complex>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace mha {

/// The measures of one head; nothing if the layer lacks the weights, or the model its ends.
struct HeadCircuits {
  std::string layer;
  std::size_t head = 0;
  /// Of QK and OV, largest first, as many as the head's width: all others are zero.
  std::vector<double> qk_singular_values, ov_singular_values;
  /// Of OV, largest |λ| first, without those that are zero by rank.
  std::vector<std::complex<double>> ov_eigenvalues;

  std::optional<double> qk_rank;     ///< effective rank: exp(−Σ p ln p), p = σ/Σσ
  std::optional<double> qk_max;      ///< the largest σ of QK, its spectral norm
  std::optional<double> ov_rank;     ///< as qk_rank, of OV
  std::optional<double> ov_max;      ///< the largest σ of OV
  std::optional<double> ov_positive; ///< Re Σλ / Σ|λ| of OV; 1 if it writes what it reads
  std::optional<double> copying;     ///< the same of W_E OV W_U; 1 if tokens raise their own logits
};

/// One column of the table, CSV and JSON.
struct CircuitMeasure {
  std::string_view name, text;
  std::optional<double> HeadCircuits::*of;
};
std::span<const CircuitMeasure> circuit_measures();
/// Throws Error with "did you mean".
const CircuitMeasure& circuit_measure_named(std::string_view name);

/// W_U W_E of a whole model, (d_model, d_model), with the last norm's gain and centring in W_U.
/// Empty if the model has no such product, for the reason in `why`.
struct VocabularyProduct {
  DenseMatrix W;
  std::string why;
  bool is_lost = false; ///< its numbers are NaN or infinite
};

/// The circuits of some heads of a layer, in the order of `heads`, with the same bits for any
/// number of threads. A head with weights that are not finite has no measures. Throws Error if
/// LAPACK is missing.
std::vector<HeadCircuits> circuits_of(const LayerProjections& layer,
                                      const std::vector<std::size_t>& heads,
                                      const VocabularyProduct& vocabulary, std::size_t threads);

/// exp(entropy of σ / Σσ) (Roy & Vetterli 2007); nothing if all σ are zero.
std::optional<double> effective_rank(const std::vector<double>& singular_values);
/// Re Σλ / Σ|λ|; nothing if all are zero.
std::optional<double> positive_share(const std::vector<std::complex<double>>& eigenvalues);
/// Throws Error with the package to install if LAPACK is missing.
void require_lapack(std::string_view what);

} // namespace mha
