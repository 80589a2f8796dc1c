#include <mha/circuits/vocabulary.hpp>

#include <mha/system/error.hpp>
#include <mha/system/parallel.hpp>

#include <algorithm>
#include <cmath>

namespace mha {

namespace {

constexpr std::size_t tokens_together = 2048;

/// The factors of a norm's gain.
std::vector<double> gain_of(const Norm& norm) {
  std::vector<double> gain(norm.weight.count());
  for (std::size_t i = 0; i < gain.size(); ++i)
    gain[i] = value_at(norm.weight, i) + (norm.one_plus ? 1 : 0);
  return gain;
}

/// Rows [first, first + count) of the embedding.
DenseMatrix rows_of_embedding(const Tensor& tokens, std::size_t first, std::size_t count) {
  const std::size_t width = tokens.shape()[1];
  DenseMatrix rows(count, width);
  convert(tokens.raw() + first * width * size_of(tokens.dtype()), tokens.dtype(),
          reinterpret_cast<std::byte*>(rows.numbers.data()), DType::f64, count * width);
  return rows;
}

/// The linear map of a factorised embedding, from a token's row to the stream.
DenseMatrix map_to_stream(const Embedding& embedding) {
  const Tensor numbers = convert(embedding.projection.W, DType::f64);
  DenseMatrix matrix(embedding.projection.in(), embedding.projection.out());
  std::ranges::copy(numbers.as<double>(), matrix.numbers.begin());
  return matrix;
}

/// Columns [first, first + count) of the unembedding.
DenseMatrix columns_of_head(const Tensor& W, std::size_t first, std::size_t count) {
  const Tensor columns = convert(columns_when_read(W, first, count), DType::f64);
  DenseMatrix matrix(W.shape()[0], count);
  std::ranges::copy(columns.as<double>(), matrix.numbers.begin());
  return matrix;
}

std::string why_not_between(const Embedding& embedding, const ModelHead& head) {
  if (!head.present()) return "the model has no unembedding";
  if (head.dense.present()) return "the head has a layer of its own before the logits";
  if (head.decoder.in() != embedding.width())
    return "the embedding and the unembedding are of different widths";
  return "";
}

} // namespace

VocabularyProduct vocabulary_product(const Embedding& embedding, const Norm& last,
                                     const ModelHead& head, std::size_t threads) {
  VocabularyProduct to;
  to.why = why_not_between(embedding, head);
  if (to.why.empty() && head.decoder.out() != embedding.tokens.shape()[0])
    to.why = "the unembedding has other tokens than the embedding";
  if (!to.why.empty()) return to;
  const std::size_t V = embedding.tokens.shape()[0], d = embedding.width();
  to.W = DenseMatrix(d, embedding.tokens.shape()[1]);
  for (std::size_t first = 0; first < V; first += tokens_together) {
    const std::size_t count = std::min(tokens_together, V - first);
    const DenseMatrix part =
        product_together(columns_of_head(head.decoder.W, first, count).view(),
                         rows_of_embedding(embedding.tokens, first, count).view(), threads);
    for (std::size_t i = 0; i < part.numbers.size(); ++i) to.W.numbers[i] += part.numbers[i];
  }
  if (embedding.projection.present())
    to.W = product_together(to.W.view(), map_to_stream(embedding).view(), threads);
  fold_norm(to.W, last.kind, gain_of(last));
  if (!std::ranges::all_of(to.W.numbers, [](double w) { return std::isfinite(w); })) {
    to.W = DenseMatrix();
    to.why = "the embedding, the last norm or the unembedding has numbers that are NaN or infinite";
    to.is_lost = true;
  }
  return to;
}

TokenCircuits::TokenCircuits(const Embedding& embedding, const Norm& last, const ModelHead& head,
                             const std::vector<int>& tokens, bool ov)
    : ov_(ov), W_E(tokens.size(), embedding.tokens.shape()[1]) {
  if (ov)
    if (const std::string why = why_not_between(embedding, head); !why.empty())
      fail("OV has no numbers between tokens: {}", why);
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    const DenseMatrix row =
        rows_of_embedding(embedding.tokens, static_cast<std::size_t>(tokens[i]), 1);
    for (std::size_t k = 0; k < row.cols; ++k) W_E.row(i)[k] = row.numbers[k] * embedding.scale;
  }
  if (embedding.projection.present()) W_E = product(W_E.view(), map_to_stream(embedding).view());
  if (!ov) return;
  W_U = DenseMatrix(head.decoder.in(), tokens.size());
  for (std::size_t j = 0; j < tokens.size(); ++j) {
    const DenseMatrix column =
        columns_of_head(head.decoder.W, static_cast<std::size_t>(tokens[j]), 1);
    for (std::size_t k = 0; k < W_U.rows; ++k) W_U.row(k)[j] = column.numbers[k] * head.scale;
  }
  fold_norm(W_U, last.kind, gain_of(last));
}

DenseMatrix TokenCircuits::of(const LayerProjections& layer, std::size_t head) const {
  if (ov_ ? !layer.has_ov() : !layer.has_qk())
    fail("layer {} has no {} circuit{}", layer.layer, ov_ ? "OV" : "QK",
         !ov_ && layer.has_qk_norm ? ": its queries and keys are normalised" : "");
  if (!ov_)
    return product_with_transpose(product(W_E.view(), layer.q(head)).view(),
                                  product(W_E.view(), layer.k(head)).view());
  const DenseMatrix written = product(product(W_E.view(), layer.v(head)).view(), layer.o(head));
  return product(written.view(), W_U.view());
}

} // namespace mha
