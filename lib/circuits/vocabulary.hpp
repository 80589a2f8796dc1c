#pragma once
// Circuits between tokens: QK and OV with the embedding and the unembedding.

#include <mha/circuits/circuits.hpp>
#include <mha/layer/block.hpp>

namespace mha {

/// W_U W_E of a model, with the last norm's gain and centring in W_U: rows are the stream that the
/// unembedding reads, columns the stream that the embedding writes. W_E is the raw table times the
/// linear map of a factorised embedding, without positions, scale and norm. Reads the vocabulary in
/// pieces.
VocabularyProduct vocabulary_product(const Embedding& embedding, const Norm& last,
                                     const ModelHead& head, std::size_t threads);

/// A circuit between some tokens: W_E QK W_Eᵀ with rows for queries and columns for keys, or W_E OV
/// W_U with rows for attended tokens and columns for logits. Includes the embedding's scale and the
/// linear map of a factorised embedding, but not positions, the embedding's norm and divisors of
/// norms.
class TokenCircuits {
public:
  /// Throws Error if OV is asked for and the model has no unembedding, or one with a layer before
  /// it.
  TokenCircuits(const Embedding& embedding, const Norm& last, const ModelHead& head,
                const std::vector<int>& tokens, bool ov);
  /// (tokens, tokens) numbers. Throws Error if the layer has no such circuit.
  DenseMatrix of(const LayerProjections& layer, std::size_t head) const;

private:
  bool ov_ = false;
  DenseMatrix W_E; ///< tokens, d_model
  DenseMatrix W_U; ///< d_model, tokens
};

} // namespace mha
