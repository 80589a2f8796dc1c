#include <mha/circuits/composition.hpp>
#include <mha/circuits/vocabulary.hpp>
#include <mha/kernels/lapack.hpp>

#include <catch2/catch.hpp>

#include <cmath>
#include <random>

// Circuits of random weights, against plain sums over every index.

using namespace mha;

namespace {

DenseMatrix random_matrix(std::size_t rows, std::size_t cols, std::mt19937& random) {
  std::normal_distribution<double> normal;
  DenseMatrix matrix(rows, cols);
  for (double& x : matrix.numbers) x = normal(random);
  return matrix;
}

Tensor tensor_of(const DenseMatrix& matrix) {
  return Tensor::of<double>({matrix.rows, matrix.cols}, std::span(matrix.numbers));
}

double at(const DenseMatrix& matrix, std::size_t i, std::size_t j) {
  return matrix.numbers[i * matrix.cols + j];
}

/// A layer of 4 heads on 2 key/value heads, whose query heads 0 and 1 share the first.
LayerProjections random_layer(std::size_t d, std::size_t d_k, std::size_t d_v,
                              std::mt19937& random) {
  LayerProjections layer;
  layer.layer = "7";
  layer.heads = 4, layer.key_value_heads = 2, layer.kv_heads = {0, 0, 1, 1}, layer.width = d;
  layer.W_q = random_matrix(d, 4 * d_k, random), layer.W_k = random_matrix(d, 2 * d_k, random);
  layer.W_v = random_matrix(d, 2 * d_v, random), layer.W_o = random_matrix(4 * d_v, d, random);
  return layer;
}

} // namespace

TEST_CASE("circuits: between tokens, each number is the sum over the stream and the head") {
  std::mt19937 random(3);
  constexpr std::size_t d = 11, d_k = 3, d_v = 5, V = 7, head = 2;
  const LayerProjections layer = random_layer(d, d_k, d_v, random);
  const DenseMatrix W_E = random_matrix(V, d, random), W_U = random_matrix(d, V, random);
  Embedding embedding;
  embedding.tokens = tensor_of(W_E), embedding.scale = 3;
  ModelHead unembedding;
  unembedding.decoder.W = tensor_of(W_U);
  Norm last;
  last.kind = InputNorm::layer;
  const std::vector<double> gain{1, 2, 3, -1, 1, .5, 2, 1, 1, 4, 1};
  last.weight = Tensor::of<double>({d}, std::span(gain));
  const std::vector<int> tokens{5, 0, 6};

  const DenseMatrix qk = TokenCircuits(embedding, last, unembedding, tokens, false).of(layer, head),
                    ov = TokenCircuits(embedding, last, unembedding, tokens, true).of(layer, head);
  for (std::size_t i = 0; i < tokens.size(); ++i)
    for (std::size_t j = 0; j < tokens.size(); ++j) {
      const auto a = static_cast<std::size_t>(tokens[i]), b = static_cast<std::size_t>(tokens[j]);
      double score = 0, logit = 0;
      for (std::size_t c = 0; c < d_k; ++c) {
        double q = 0, k = 0;
        for (std::size_t x = 0; x < d; ++x) {
          q += 3 * at(W_E, a, x) * at(layer.W_q, x, head * d_k + c);
          k += 3 * at(W_E, b, x) * at(layer.W_k, x, d_k + c); // key/value head 1
        }
        score += q * k;
      }
      std::vector<double> written(d);
      for (std::size_t c = 0; c < d_v; ++c) {
        double v = 0;
        for (std::size_t x = 0; x < d; ++x) v += 3 * at(W_E, a, x) * at(layer.W_v, x, d_v + c);
        for (std::size_t x = 0; x < d; ++x) written[x] += v * at(layer.W_o, head * d_v + c, x);
      }
      double mean = 0;
      for (const double x : written) mean += x / d;
      for (std::size_t x = 0; x < d; ++x) logit += (written[x] - mean) * gain[x] * at(W_U, x, b);
      CHECK(at(qk, i, j) == Approx(score).epsilon(1e-12));
      CHECK(at(ov, i, j) == Approx(logit).epsilon(1e-12));
    }
}

TEST_CASE("circuits: a factorised embedding's rows are what its linear map makes of them") {
  std::mt19937 random(9);
  constexpr std::size_t d = 11, E = 4, V = 7, head = 2;
  const LayerProjections layer = random_layer(d, 3, 5, random);
  const DenseMatrix rows = random_matrix(V, E, random), map = random_matrix(E, d, random);
  DenseMatrix wide_rows(V, d);
  for (std::size_t i = 0; i < V; ++i)
    for (std::size_t j = 0; j < d; ++j)
      for (std::size_t k = 0; k < E; ++k) wide_rows.row(i)[j] += at(rows, i, k) * at(map, k, j);
  Embedding narrow, wide;
  narrow.tokens = tensor_of(rows), narrow.projection.W = tensor_of(map), narrow.scale = 3;
  wide.tokens = tensor_of(wide_rows), wide.scale = 3;
  ModelHead unembedding;
  unembedding.decoder.W = tensor_of(random_matrix(d, V, random));
  const std::vector<int> tokens{5, 0, 6};
  for (const bool ov : {false, true}) {
    const DenseMatrix expected = TokenCircuits(wide, {}, unembedding, tokens, ov).of(layer, head);
    const DenseMatrix found = TokenCircuits(narrow, {}, unembedding, tokens, ov).of(layer, head);
    REQUIRE(found.numbers.size() == expected.numbers.size());
    for (std::size_t i = 0; i < found.numbers.size(); ++i)
      CHECK(found.numbers[i] == Approx(expected.numbers[i]).epsilon(1e-12));
  }
  const VocabularyProduct expected = vocabulary_product(wide, {}, unembedding, 2),
                          found = vocabulary_product(narrow, {}, unembedding, 2);
  REQUIRE(found.W.numbers.size() == d * d);
  for (std::size_t i = 0; i < d * d; ++i)
    CHECK(found.W.numbers[i] == Approx(expected.W.numbers[i]).epsilon(1e-12));
}

TEST_CASE("circuits: heads as wide as, or wider than, the stream") {
  if (!has_lapack()) return;
  std::mt19937 random(5);
  for (const std::size_t width : {std::size_t{3}, std::size_t{6}}) {
    const LayerProjections layer = random_layer(3, width, width + 1, random);
    const HeadCircuits head = circuits_of(layer, {3}, {}, 1)[0];
    // ‖OV‖_F² is the sum of σ², its trace the sum of λ.
    double squares = 0, trace = 0, of_singular = 0;
    std::complex<double> of_eigen = 0;
    for (std::size_t i = 0; i < 3; ++i)
      for (std::size_t j = 0; j < 3; ++j) {
        double sum = 0;
        for (std::size_t c = 0; c < width + 1; ++c)
          sum += at(layer.W_v, i, width + 1 + c) * at(layer.W_o, 3 * (width + 1) + c, j);
        squares += sum * sum, trace += i == j ? sum : 0;
      }
    for (const double sigma : head.ov_singular_values) of_singular += sigma * sigma;
    for (const std::complex<double>& lambda : head.ov_eigenvalues) of_eigen += lambda;
    CHECK(of_singular == Approx(squares).epsilon(1e-12));
    CHECK(of_eigen.real() == Approx(trace).epsilon(1e-10));
    CHECK(head.ov_eigenvalues.size() == 3);
  }
}

TEST_CASE("circuits: random heads compose as is expected of them") {
  if (!has_lapack()) return;
  std::mt19937 random(7);
  constexpr std::size_t d = 40;
  double sums[3] = {}, count = 0, expected = 0;
  for (int i = 0; i < 60; ++i) {
    const std::vector<Composition> list = compositions(
        {composed(random_layer(d, 6, 9, random), 1), composed(random_layer(d, 6, 9, random), 1)},
        {CompositionKind::q, CompositionKind::k, CompositionKind::v}, 2);
    REQUIRE(list.size() == 3 * 16);
    for (const Composition& one : list)
      sums[static_cast<std::size_t>(one.kind)] += one.value * one.value, expected = one.random;
    count += 16;
  }
  CHECK(expected == Approx(1 / std::sqrt(40.0)));
  for (const double sum : sums) CHECK(std::sqrt(sum / count) == Approx(expected).epsilon(0.02));
}

TEST_CASE("circuits: ranks and shares of known spectra; none where all is zero") {
  CHECK(*effective_rank({5, 5, 5}) == Approx(3));
  CHECK(*effective_rank({8, 0, 0}) == Approx(1));
  CHECK(*effective_rank({2, 1, 1}) == Approx(std::exp(1.5 * std::log(2.0))));
  CHECK_FALSE(effective_rank({0, 0}));
  CHECK_FALSE(effective_rank({}));
  CHECK(*positive_share({{3, 4}, {3, -4}, {-2, 0}}) == Approx((6.0 - 2) / 12));
  CHECK_FALSE(positive_share({{0, 0}}));
}
