#include <mha/circuits/projections.hpp>

#include <mha/forward/rotary.hpp>
#include <mha/layer/graph.hpp>
#include <mha/system/error.hpp>

#include <algorithm>

namespace mha {

namespace {

/// A weight's numbers. An absent weight is the identity with `identity` rows (0: stays absent).
DenseMatrix matrix_of(const Tensor& W, std::size_t identity = 0) {
  if (W.empty()) {
    DenseMatrix unit(identity, identity);
    for (std::size_t i = 0; i < identity; ++i) unit.row(i)[i] = 1;
    return unit;
  }
  const Tensor numbers = convert(W, DType::f64);
  DenseMatrix matrix(W.shape()[0], W.shape()[1]);
  std::ranges::copy(numbers.as<double>(), matrix.numbers.begin());
  return matrix;
}

/// W_c diag(gain) W, where compressed rows have a norm with a gain.
DenseMatrix through_compressed(const Tensor& W_c, const Tensor& gain, DenseMatrix W) {
  if (W_c.empty()) return W;
  fold_norm(W, InputNorm::rms, values_in_double(gain));
  return product(matrix_of(W_c).view(), W.view());
}

/// Adds the part of the key that all heads share to the last columns of each head.
void add_shared_key(const Layer& layer, DenseMatrix& W_k) {
  if (layer.W_k_pe.empty()) return;
  const DenseMatrix shared = matrix_of(layer.W_k_pe);
  const std::size_t d_k = W_k.cols / layer.dims.H_kv;
  for (std::size_t i = 0; i < W_k.rows; ++i)
    for (std::size_t h = 0; h < layer.dims.H_kv; ++h)
      for (std::size_t j = 0; j < shared.cols; ++j)
        W_k.row(i)[(h + 1) * d_k - shared.cols + j] += shared.numbers[i * shared.cols + j];
}

/// Rotates each head's columns in every row as a query or key at `position`.
void turn(const Layer& layer, std::int64_t position, std::size_t heads, DenseMatrix& W) {
  const RotaryTable<double> table = rotary_table<double>(layer, 1, position);
  const std::size_t d_k = W.cols / heads, before = layer.settings.rope_first;
  std::vector<double> turned(d_k - before);
  for (std::size_t i = 0; i < W.rows; ++i)
    for (std::size_t h = 0; h < heads; ++h) {
      double* const head = W.row(i) + h * d_k + before;
      rotate(head, table.cosines.data(), table.sines.data(), turned.size(), 2 * table.pairs,
             layer.settings.rope == Rope::interleaved, turned.data());
      std::ranges::copy(turned, head);
    }
}

/// Whether a norm follows the output or the block, between a head's result and the next reader.
bool has_norm_after(const Layer& layer) {
  return layer.block &&
         (layer.block->post_attention_norm.present() || layer.block->post_block_norm.present() ||
          layer.block->shape == BlockShape::post);
}

} // namespace

void fold_norm(DenseMatrix& W, InputNorm kind, const std::vector<double>& gain) {
  for (std::size_t i = 0; i < W.rows && !gain.empty(); ++i)
    for (std::size_t j = 0; j < W.cols; ++j) W.row(i)[j] *= gain[i];
  if (kind != InputNorm::layer) return;
  std::vector<double> mean(W.cols);
  for (std::size_t i = 0; i < W.rows; ++i)
    for (std::size_t j = 0; j < W.cols; ++j) mean[j] += W.row(i)[j] / static_cast<double>(W.rows);
  for (std::size_t i = 0; i < W.rows; ++i)
    for (std::size_t j = 0; j < W.cols; ++j) W.row(i)[j] -= mean[j];
}

LayerProjections projections_of(const Layer& layer, const std::string& id, std::int64_t offset) {
  const Dims& dims = layer.dims;
  LayerProjections to;
  to.layer = id;
  to.heads = dims.H, to.key_value_heads = dims.H_kv;
  for (std::size_t h = 0; h < dims.H; ++h) to.kv_heads.push_back(kv_head_of(layer, h));
  to.has_qk_norm = !layer.q_norm_weight.empty() || !layer.k_norm_weight.empty();
  to.normalises_output = has_norm_after(layer);
  to.is_gated = has_step(layer, Stage::gated);
  to.makes_keys = has_step(layer, Stage::k);
  to.normalises_values = has_step(layer, Stage::v_norm) || has_step(layer, Stage::head_norm);

  const bool some_qk = !layer.W_q.empty() || !layer.W_k.empty(),
             some_ov = !layer.W_v.empty() || !layer.W_o.empty();
  if (!some_qk && !some_ov)
    fail("there are no projections: circuits are made of W_q, W_k, W_v and W_o");
  if (some_qk && !layer.has_given(Stage::q) && !layer.has_given(Stage::k) &&
      has_step(layer, Stage::k)) {
    to.W_q = through_compressed(layer.W_c_q, layer.c_q_norm_weight,
                                matrix_of(layer.W_q, dims.H * dims.d_k));
    to.W_k = through_compressed(layer.W_c_kv, layer.c_kv_norm_weight,
                                matrix_of(layer.W_k, dims.H_kv * dims.d_k));
    add_shared_key(layer, to.W_k);
  }
  if (some_ov && !layer.has_given(Stage::v) && has_step(layer, Stage::v)) {
    to.W_v = through_compressed(layer.W_c_kv, layer.c_kv_norm_weight,
                                matrix_of(layer.W_v, dims.H_kv * dims.d_v));
    to.W_o = matrix_of(layer.W_o, dims.H * dims.d_v);
  }
  if (layer.settings.rope != Rope::none && to.has_qk()) {
    Layer at = layer;
    at.positions = {}; // the text's do not matter
    turn(at, offset, dims.H, to.W_q), turn(at, 0, dims.H_kv, to.W_k);
    to.is_rotary = true;
  }
  const InputNorm norm = layer.settings.input_norm;
  if (norm == InputNorm::layer || norm == InputNorm::rms || norm == InputNorm::affine) {
    const std::vector<double> gain = values_in_double(layer.norm_weight);
    for (DenseMatrix* W : {&to.W_q, &to.W_k, &to.W_v})
      if (!W->empty() && (gain.empty() || gain.size() == W->rows)) fold_norm(*W, norm, gain);
    to.folded = true;
  }
  const std::size_t out = to.W_o.cols;
  if (to.has_ov() && to.W_v.rows == out) to.width = out;
  return to;
}

} // namespace mha
