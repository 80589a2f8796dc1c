#pragma once
// A layer's projections as its circuits have them: from the stream to the stream, in float64.

#include <mha/kernels/dense.hpp>
#include <mha/layer/layer.hpp>

#include <cstdint>
#include <string>
#include <vector>

namespace mha {

/// The projections of a layer without their biases. What reads the stream (W_q, W_k, W_v) has the
/// gain of the norm before it, and its centring, folded in: x ↦ C diag(gain) W, C = I − 11ᵀ/d for a
/// layer norm, I for an RMS norm and one that only multiplies; the statistics that a norm divides
/// by are left out. W_o, which writes, is as it is. Absent projections are the identity, as in the
/// layer itself.
struct LayerProjections {
  std::string layer; ///< the layer's id; "" where it has none
  std::size_t heads = 0;
  DenseMatrix W_q, W_k, W_v;         ///< in, heads side by side; empty where there is none
  DenseMatrix W_o;                   ///< heads below each other, out
  std::vector<std::size_t> kv_heads; ///< the key/value head of each head
  std::size_t key_value_heads = 0;
  bool has_qk_norm = false;       ///< q and k are normalised: no matrix stands between tokens
  bool is_rotary = false;         ///< W_q is turned by the offset
  bool folded = false;            ///< a norm's gain or centring is in W_q, W_k and W_v
  bool normalises_behind = false; ///< a norm stands behind the output or the block, left out
  std::size_t width = 0;          ///< of the stream that is read and written; 0: they differ

  bool has_qk() const { return !has_qk_norm && !W_q.empty() && !W_k.empty(); }
  bool has_ov() const { return !W_v.empty() && !W_o.empty(); }
  ///@{
  /// A head's own: (in, d_k), (in, d_k), (in, d_v), (d_v, out); W_k and W_v are those of the
  /// key/value head that it reads.
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

/// Of a layer whose tensors are there (its X need not be). With rotary embedding W_q is turned so
/// that W_q W_kᵀ is what stands between a query and the key `offset` tokens before it:
/// W_q R(offset) W_kᵀ (Su et al. 2021). Latent attention (DeepSeek) is multiplied out, with the
/// gains of its compressed rows. Throws Error where the layer has no projections.
LayerProjections projections_of(const Layer& layer, const std::string& id, std::int64_t offset);

/// W ↦ C diag(gain) W: the gain of a norm, its centring, in the rows of what reads behind it.
/// `gain` empty is 1.
void fold_norm(DenseMatrix& W, InputNorm kind, const std::vector<double>& gain);

} // namespace mha
