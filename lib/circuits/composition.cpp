#include <mha/circuits/composition.hpp>

#include <mha/circuits/circuits.hpp>
#include <mha/kernels/lapack.hpp>
#include <mha/kernels/packed.hpp>
#include <mha/system/error.hpp>
#include <mha/system/parallel.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

namespace mha {

namespace {

/// R of a thin QR factorisation; NaN if it fails.
DenseMatrix factor_of(Matrix<const double> matrix) {
  DenseMatrix R(std::min(matrix.rows, matrix.cols), matrix.cols);
  std::optional<std::vector<double>> numbers = triangular_factor(matrix);
  if (numbers)
    R.numbers = std::move(*numbers);
  else
    std::ranges::fill(R.numbers, std::numeric_limits<double>::quiet_NaN());
  return R;
}

/// Puts a head's part beside the others, or below them.
void put(const DenseMatrix& part, std::size_t head, bool below, DenseMatrix& to) {
  for (std::size_t i = 0; i < part.rows; ++i)
    std::copy_n(part.numbers.data() + i * part.cols, part.cols,
                below ? to.row(head * part.rows + i) : to.row(i) + head * part.cols);
}

/// The norms of one pair of layers: earlier head by later head.
std::vector<double> norms_of(const ComposedLayer& earlier, const ComposedLayer& later,
                             std::size_t kind) {
  const DenseMatrix &A = earlier.writes, &B = later.reads[kind];
  const std::size_t rows = A.rows / earlier.heads, cols = B.cols / later.heads;
  const DenseMatrix C = product(A.view(), B.view());
  std::vector<double> norms(earlier.heads * later.heads);
  for (std::size_t h = 0; h < earlier.heads; ++h)
    for (std::size_t g = 0; g < later.heads; ++g)
      norms[h * later.heads + g] =
          frobenius_norm(C.view().rows_from(h * rows, rows).cols_from(g * cols, cols)) /
          (earlier.written[h] * later.read_norms[kind][g]);
  return norms;
}

} // namespace

std::string_view name_of(CompositionKind kind) {
  return kind == CompositionKind::q ? "q" : kind == CompositionKind::k ? "k" : "v";
}

ComposedLayer composed(const LayerProjections& layer, std::size_t threads) {
  require_lapack("composition");
  if (!layer.has_ov() || layer.width == 0)
    fail("layer {}: composition needs W_v and W_o that read and write one stream", layer.layer);
  const std::size_t H = layer.heads, d = layer.width,
                    d_v = std::min(d, layer.W_v.cols / layer.key_value_heads);
  ComposedLayer to;
  to.layer = layer.layer, to.heads = H, to.width = d;
  to.writes = DenseMatrix(H * d_v, d), to.written.resize(H);
  const bool has_qk = layer.has_qk() && layer.W_q.rows == d && layer.W_k.rows == d;
  const std::size_t d_k = has_qk ? std::min(d, layer.W_q.cols / H) : 0;
  for (std::size_t kind = 0; kind < 3; ++kind) {
    to.reads[kind] = DenseMatrix(d, H * (kind == 2 ? d_v : d_k));
    to.read_norms[kind].resize(H, 0);
  }
  parallel_for(H, threads, [&](std::size_t h) {
    const DenseMatrix A = product(factor_of(layer.v(h)).view(), layer.o(h));
    to.written[h] = frobenius_norm(A.view());
    put(A, h, true, to.writes);
    const auto read = [&](std::size_t kind, const DenseMatrix& part) {
      to.read_norms[kind][h] = frobenius_norm(part.view());
      put(part, h, false, to.reads[kind]);
    };
    read(2, product_with_transpose(layer.v(h), factor_of(transpose_of(layer.o(h)).view()).view()));
    if (!has_qk) return;
    read(0, product_with_transpose(layer.q(h), factor_of(layer.k(h)).view()));
    read(1, product_with_transpose(layer.k(h), factor_of(layer.q(h)).view()));
  });
  return to;
}

std::vector<Composition> compositions(const std::vector<ComposedLayer>& layers,
                                      const std::vector<CompositionKind>& kinds,
                                      std::size_t threads) {
  struct Pair {
    CompositionKind kind;
    std::size_t earlier, later;
    std::vector<double> norms;
  };
  std::vector<Pair> pairs;
  for (const CompositionKind kind : kinds)
    for (std::size_t i = 0; i < layers.size(); ++i)
      for (std::size_t j = i + 1; j < layers.size(); ++j)
        if (!layers[j].reads[static_cast<std::size_t>(kind)].empty())
          pairs.push_back({kind, i, j, {}});
  parallel_for(pairs.size(), threads, [&](std::size_t p) {
    pairs[p].norms = norms_of(layers[pairs[p].earlier], layers[pairs[p].later],
                              static_cast<std::size_t>(pairs[p].kind));
  });
  // The pairs of a head follow each other, by later layer and head.
  std::vector<Composition> list;
  for (std::size_t first = 0; first < pairs.size();) {
    std::size_t last = first;
    while (last < pairs.size() && pairs[last].kind == pairs[first].kind &&
           pairs[last].earlier == pairs[first].earlier)
      ++last;
    const ComposedLayer& earlier = layers[pairs[first].earlier];
    for (std::size_t h = 0; h < earlier.heads; ++h)
      for (std::size_t p = first; p < last; ++p) {
        const ComposedLayer& later = layers[pairs[p].later];
        for (std::size_t g = 0; g < later.heads; ++g)
          list.push_back({pairs[p].kind, earlier.layer, later.layer, h, g,
                          pairs[p].norms[h * later.heads + g],
                          1 / std::sqrt(static_cast<double>(later.width))});
      }
    first = last;
  }
  return list;
}

} // namespace mha
