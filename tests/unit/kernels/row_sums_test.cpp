#include <mha/kernels/dispatch.hpp>
#include <mha/kernels/rows.hpp>

#include <catch2/catch.hpp>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

namespace {

/// Weights of many sizes, zeros among them.
template <class T> std::vector<T> weights(std::size_t n, std::mt19937& rng) {
  std::uniform_real_distribution<double> logarithm(-30, 0);
  std::vector<T> row(n);
  for (T& x : row) {
    const double drawn = logarithm(rng);
    x = drawn < -27 ? T(0) : static_cast<T>(std::exp(drawn));
  }
  return row;
}

} // namespace

TEMPLATE_TEST_CASE("row_sums agrees with the sums in long double", "", float, double) {
  using T = TestType;
  std::mt19937 rng(1);
  const long double eps = std::numeric_limits<T>::epsilon();
  for (const mha::Kernels<T>* kernels : mha::available_kernels<T>())
    for (std::size_t n = 0; n <= 300; n += n < 70 ? 1 : 23) {
      CAPTURE(kernels->name, n);
      auto row = weights<T>(n, rng);
      const T equal = static_cast<T>(1e-4);
      long double sum = 0, entropy = 0, overlap = 0, first = 0, second = 0;
      for (std::size_t i = 0; i < n; ++i) {
        const long double a = row[i], place = i;
        sum += a, first += a * place, second += a * place * place;
        overlap += std::min(row[i], equal);
        if (a > 0) entropy -= a * std::log(a);
      }
      row.push_back(1); // must not count
      const mha::RowSums sums = kernels->row_sums(row.data(), n, equal);
      // Sums are of doubles, the logarithms of T.
      CHECK(std::fabs(sums.sum - sum) <= 1e-14L * sum);
      CHECK(std::fabs(sums.overlap - overlap) <= 1e-14L * overlap);
      CHECK(std::fabs(sums.first - first) <= 1e-14L * first);
      CHECK(std::fabs(sums.second - second) <= 1e-14L * second);
      CHECK(std::fabs(sums.entropy - entropy) <= (4 * eps + 1e-14L) * entropy);
    }
}

TEMPLATE_TEST_CASE("a weight's entropy is within four units of its last place", "", float, double) {
  using T = TestType;
  std::mt19937 rng(2);
  std::uniform_real_distribution<double> anywhere(sizeof(T) == 4 ? -87 : -700, 0), near(-1e-3, 0),
      close(-1e-6, 0);
  for (const mha::Kernels<T>* kernels : mha::available_kernels<T>()) {
    CAPTURE(kernels->name);
    long double worst = 0;
    for (int i = 0; i < 60000; ++i) {
      auto& range = i % 3 == 0 ? anywhere : i % 3 == 1 ? near : close;
      const T weight = static_cast<T>(std::exp(range(rng)));
      const long double exact =
          -static_cast<long double>(weight) * std::log(static_cast<long double>(weight));
      const auto found = static_cast<long double>(kernels->row_sums(&weight, 1, T(1)).entropy);
      if (exact > 0)
        worst = std::max(worst, std::fabs(found - exact) / exact);
      else
        CHECK(found == 0);
    }
    CHECK(worst <= 4 * static_cast<long double>(std::numeric_limits<T>::epsilon()));
  }
}

TEMPLATE_TEST_CASE("the entropy of what is no ordinary weight", "", float, double) {
  using T = TestType;
  for (const mha::Kernels<T>* kernels : mha::available_kernels<T>())
    for (std::size_t place = 0; place < 40; ++place) {
      CAPTURE(kernels->name, place);
      const auto sums = [&](T weight) {
        std::vector<T> row(40, T(0));
        row[place] = weight;
        return kernels->row_sums(row.data(), row.size(), T(0.5));
      };
      CHECK(sums(T(0)).entropy == 0);
      CHECK(sums(T(1)).entropy == 0);
      CHECK(sums(T(1)).overlap == 0.5);
      CHECK(sums(T(1)).first == static_cast<double>(place));
      CHECK(std::fabs(sums(std::numeric_limits<T>::denorm_min()).entropy) < 1e-30);
      CHECK(std::isnan(sums(std::numeric_limits<T>::quiet_NaN()).sum));
      CHECK(std::isnan(sums(std::numeric_limits<T>::quiet_NaN()).entropy));
    }
}
