#include <mha/circuits/circuits.hpp>

#include <mha/kernels/lapack.hpp>
#include <mha/system/error.hpp>
#include <mha/system/named.hpp>
#include <mha/system/parallel.hpp>

#include <algorithm>
#include <array>
#include <cmath>

namespace mha {

namespace {

constexpr std::array<CircuitMeasure, 6> measure_list{{
    {"qk_rank", "effective rank of QK", &HeadCircuits::qk_rank},
    {"qk_max", "largest singular value of QK", &HeadCircuits::qk_max},
    {"ov_rank", "effective rank of OV", &HeadCircuits::ov_rank},
    {"ov_max", "largest singular value of OV", &HeadCircuits::ov_max},
    {"ov_positive", "Re Σλ / Σ|λ| of OV", &HeadCircuits::ov_positive},
    {"copying", "Re Σλ / Σ|λ| of W_E OV W_U", &HeadCircuits::copying},
}};

/// Singular values of a bᵀ, computed from R_a R_bᵀ, whose sides are the heads' widths.
std::vector<double> singular_values_of_product(Matrix<const double> a, Matrix<const double> b) {
  const auto thin = [](Matrix<const double> m) -> std::optional<DenseMatrix> {
    std::optional<std::vector<double>> factor = triangular_factor(m);
    if (!factor) return std::nullopt;
    DenseMatrix R(std::min(m.rows, m.cols), m.cols);
    R.numbers = std::move(*factor);
    return R;
  };
  const std::optional<DenseMatrix> R_a = thin(a), R_b = thin(b);
  if (!R_a || !R_b) return {};
  return singular_values(product_with_transpose(R_a->view(), R_b->view()).view())
      .value_or(std::vector<double>());
}

/// Eigenvalues of a b, largest first, computed from the smaller of a b and b a; the others are
/// zero.
std::vector<std::complex<double>> eigenvalues_of_product(Matrix<const double> a,
                                                         Matrix<const double> b) {
  const DenseMatrix smaller = a.rows <= a.cols ? product(a, b) : product(b, a);
  std::vector<std::complex<double>> list =
      eigenvalues(smaller.view()).value_or(std::vector<std::complex<double>>());
  std::ranges::stable_sort(list, [](const auto& x, const auto& y) {
    return std::abs(x) > std::abs(y) || (std::abs(x) == std::abs(y) && x.imag() > y.imag());
  });
  return list;
}

HeadCircuits circuits_of_head(const LayerProjections& layer, std::size_t head,
                              const VocabularyProduct& vocabulary, const DenseMatrix& W_o_UE) {
  HeadCircuits to;
  to.layer = layer.layer, to.head = head;
  if (layer.has_qk()) {
    to.qk_singular_values = singular_values_of_product(layer.q(head), layer.k(head));
    to.qk_rank = effective_rank(to.qk_singular_values);
    if (!to.qk_singular_values.empty()) to.qk_max = to.qk_singular_values.front();
  }
  if (!layer.has_ov()) return to;
  const DenseMatrix W_oT = transpose_of(layer.o(head));
  to.ov_singular_values = singular_values_of_product(layer.v(head), W_oT.view());
  to.ov_rank = effective_rank(to.ov_singular_values);
  if (!to.ov_singular_values.empty()) to.ov_max = to.ov_singular_values.front();
  if (layer.width == 0) return to;
  to.ov_eigenvalues = eigenvalues_of_product(layer.o(head), layer.v(head));
  to.ov_positive = positive_share(to.ov_eigenvalues);
  if (vocabulary.W.empty()) return to;
  const std::size_t rows = W_o_UE.rows / layer.heads;
  to.copying = positive_share(
      eigenvalues_of_product(W_o_UE.view().rows_from(head * rows, rows), layer.v(head)));
  return to;
}

} // namespace

std::span<const CircuitMeasure> circuit_measures() {
  return measure_list;
}

const CircuitMeasure& circuit_measure_named(std::string_view name) {
  if (const CircuitMeasure* measure = find_named(measure_list, name)) return *measure;
  fail("'{}' is not a measure of circuits{}", name, choices_for(name, names_of_rows(measure_list)));
}

std::optional<double> effective_rank(const std::vector<double>& singular_values) {
  double sum = 0, entropy = 0;
  for (const double sigma : singular_values) sum += sigma;
  if (!(sum > 0)) return std::nullopt;
  for (const double sigma : singular_values)
    if (const double p = sigma / sum; p > 0) entropy -= p * std::log(p);
  return std::exp(entropy);
}

std::optional<double> positive_share(const std::vector<std::complex<double>>& eigenvalues) {
  double sum = 0, sizes = 0;
  for (const std::complex<double>& lambda : eigenvalues)
    sum += lambda.real(), sizes += std::abs(lambda);
  if (!(sizes > 0)) return std::nullopt;
  return sum / sizes;
}

void require_lapack(std::string_view what) {
  if (!has_lapack()) fail("{} needs LAPACK, which is missing; install {}", what, lapack_package);
}

std::vector<HeadCircuits> circuits_of(const LayerProjections& layer,
                                      const std::vector<std::size_t>& heads,
                                      const VocabularyProduct& vocabulary, std::size_t threads) {
  require_lapack("circuits");
  DenseMatrix W_o_UE; // computed for all heads together
  if (layer.has_ov() && layer.width > 0 && !vocabulary.W.empty())
    W_o_UE = product_together(layer.W_o.view(), vocabulary.W.view(), threads);
  std::vector<HeadCircuits> list(heads.size());
  parallel_for(heads.size(), threads, [&](std::size_t i) {
    list[i] = circuits_of_head(layer, heads[i], vocabulary, W_o_UE);
  });
  return list;
}

} // namespace mha
