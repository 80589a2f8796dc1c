#pragma once
// Circuits of a head's weights alone, whatever the text (Elhage et al. 2021, "A Mathematical
// Framework for Transformer Circuits"): QK = W_q W_kᵀ says which token attends to which, OV =
// W_v W_o what is written where something is attended to. Rows times matrices throughout.

#include <mha/circuits/projections.hpp>

#include <complex>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace mha {

/// The measures of one head; nothing where the layer lacks the weights, or the model the ends.
struct HeadCircuits {
  std::string layer;
  std::size_t head = 0;
  /// Of QK and OV, largest first, as many as a head is wide: all others are zero.
  std::vector<double> qk_singular_values, ov_singular_values;
  /// Of OV, largest absolute value first; those of which |λ| may be other than zero.
  std::vector<std::complex<double>> ov_eigenvalues;

  std::optional<double> qk_rank;     ///< effective rank: exp(−Σ p ln p), p = σ/Σσ
  std::optional<double> qk_max;      ///< the largest σ of QK: its spectral norm
  std::optional<double> ov_rank;     ///< as qk_rank, of OV
  std::optional<double> ov_max;      ///< the largest σ of OV
  std::optional<double> ov_positive; ///< Re Σλ / Σ|λ| of OV: 1, all it reads it writes again
  std::optional<double> copying;     ///< the same of W_E OV W_U: 1, a token raises its own logit
};

/// One column of the table, CSV and JSON.
struct CircuitMeasure {
  std::string_view name, text;
  std::optional<double> HeadCircuits::*of;
};
std::span<const CircuitMeasure> circuit_measures();
/// Throws Error with "did you mean".
const CircuitMeasure& circuit_measure_named(std::string_view name);

/// W_U W_E, (d_model, d_model), of a whole model: the vocabulary between writing and reading, with
/// the last norm's gain and centring in W_U. Empty where there is none, for the reason in `why`.
struct VocabularyProduct {
  DenseMatrix W;
  std::string why;
  bool is_lost = false; ///< `why` is that its numbers are NaN or infinite
};

/// The heads of a layer, `heads` of them in this order. Throws Error where LAPACK is missing. A
/// head with weights that are not finite has no measures. The same bits whatever the threads.
std::vector<HeadCircuits> circuits_of(const LayerProjections& layer,
                                      const std::vector<std::size_t>& heads,
                                      const VocabularyProduct& vocabulary, std::size_t threads);

/// exp(entropy of σ / Σσ) (Roy & Vetterli 2007); nothing where all σ are zero.
std::optional<double> effective_rank(const std::vector<double>& singular_values);
/// Re Σλ / Σ|λ|; nothing where all are zero.
std::optional<double> positive_share(const std::vector<std::complex<double>>& eigenvalues);
/// Throws Error that says how to install it.
void require_lapack(std::string_view what);

} // namespace mha
