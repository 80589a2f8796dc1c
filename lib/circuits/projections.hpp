#pragma once
// A layer's projections for circuits: from the stream to the stream, in float64.

#include <mha/kernels/dense.hpp>
#include <mha/layer/layer.hpp>

#include <cstdint>
#include <string>
#include <vector>

namespace mha {

/// The projections of a layer without their biases. W_q, W_k and W_v, which read the stream, have
/// the gain and centring of the norm before them folded in: x ↦ C diag(gain) W, with C = I − 11ᵀ/d
/// for a layer norm, and I for an RMS norm or one that only multiplies. The norm's divisor is left
/// out. W_o, which writes the stream, is unchanged. Absent projections are the identity, as in the
/// layer.
struct LayerProjections {
  std::string layer; ///< the layer's id, or ""
  std::size_t heads = 0;
  DenseMatrix W_q, W_k, W_v;         ///< (in, heads side by side), or empty
  DenseMatrix W_o;                   ///< (heads one below another, out)
  std::vector<std::size_t> kv_heads; ///< the key/value head of each head
  std::size_t key_value_heads = 0;
  bool has_qk_norm = false;       ///< q and k are normalised, so scores are not bilinear
  bool is_rotary = false;         ///< W_q is turned by the offset
  bool folded = false;            ///< a norm's gain or centring is in W_q, W_k and W_v
  bool normalises_output = false; ///< a norm after the output or the block is left out
  bool is_gated = false;          ///< a gate of each token is left out of OV
  bool makes_keys = true;         ///< else they are an earlier layer's
  bool normalises_values = false; ///< norms of values or of heads' results are left out of OV
  std::size_t width = 0;          ///< of the stream; 0 if input and output differ in width

  bool has_qk() const { return !has_qk_norm && !W_q.empty() && !W_k.empty(); }
  bool has_ov() const { return !W_v.empty() && !W_o.empty(); }
  ///@{
  /// The parts of a head: (in, d_k), (in, d_k), (in, d_v), (d_v, out); W_k and W_v of the key/value
  /// head that it reads.
  Matrix<const double> q(std::size_t head) const { return part(W_q, head, heads); }
  Matrix<const double> k(std::size_t head) const {
    return part(W_k, kv_heads[head], key_value_heads);
  }
  Matrix<const double> v(std::size_t head) const {
    return part(W_v, kv_heads[head], key_value_heads);
  }
  Matrix<const double> o(std::size_t head) const {
    const std::size_t rows = W_o.rows / heads;
    return W_o.view().rows_from(head * rows, rows);
  }
  ///@}

private:
  static Matrix<const double> part(const DenseMatrix& W, std::size_t head, std::size_t parts) {
    const std::size_t cols = W.cols / parts;
    return W.view().cols_from(head * cols, cols);
  }
};

/// The projections of a layer, which needs no X. With rotary embedding, W_q is rotated so that W_q
/// W_kᵀ is the form between a query and the key `offset` tokens before it: W_q R(offset) W_kᵀ (Su
/// et al. 2021). Latent attention (DeepSeek) is multiplied out, with the gains of its compressed
/// rows. Throws Error if the layer has no projections.
LayerProjections projections_of(const Layer& layer, const std::string& id, std::int64_t offset);

/// Folds a norm into the matrix that reads its result: W ↦ C diag(gain) W. An empty `gain` is 1.
void fold_norm(DenseMatrix& W, InputNorm kind, const std::vector<double>& gain);

} // namespace mha
