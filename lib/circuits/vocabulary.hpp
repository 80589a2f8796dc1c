#pragma once
// Circuits between tokens: what the embedding and the unembedding make of QK and OV.

#include <mha/circuits/circuits.hpp>
#include <mha/layer/block.hpp>

namespace mha {

/// W_U W_E of a model, W_U with the last norm's gain and centring: rows of the unembedding's,
/// columns of the embedding's stream. W_E is the table as it lies, times the linear map of a
/// factorised embedding, without positions, its scale and its norm. Read in pieces of the
/// vocabulary.
VocabularyProduct vocabulary_product(const Embedding& embedding, const Norm& last,
                                     const ModelHead& head, std::size_t threads);

/// A circuit between some tokens: QK, rows the query's and columns the key's, in W_E QK W_Eᵀ; OV,
/// rows the attended token's and columns the logit's, in W_E OV W_U. The embedding's scale is in
/// it and the linear map of a factorised one; positions, its norm and the norms' divisors are not.
class TokenCircuits {
public:
  /// Throws Error where the model has no unembedding that a stream goes straight to and OV is
  /// asked.
  TokenCircuits(const Embedding& embedding, const Norm& last, const ModelHead& head,
                const std::vector<int>& tokens, bool ov);
  /// (tokens, tokens) numbers. Throws Error where the layer has no such circuit.
  DenseMatrix of(const LayerProjections& layer, std::size_t head) const;

private:
  bool ov_ = false;
  DenseMatrix W_E; ///< tokens, d_model
  DenseMatrix W_U; ///< d_model, tokens
};

} // namespace mha
