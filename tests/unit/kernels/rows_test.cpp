#include <mha/kernels/dispatch.hpp>
#include <mha/kernels/rows.hpp>
#include <mha/maths/functions.hpp>

#include <catch2/catch.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

namespace {

template <class T> constexpr T inf = std::numeric_limits<T>::infinity();
template <class T> constexpr T not_a_number = std::numeric_limits<T>::quiet_NaN();

template <class T> bool same_bits(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() &&
         (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0);
}

template <class T> bool same_bits(T a, T b) {
  return std::memcmp(&a, &b, sizeof(T)) == 0;
}

template <class T> std::vector<T> random_row(std::size_t n, std::mt19937& rng, double width = 5) {
  std::normal_distribution<double> normal(0, width);
  std::vector<T> row(n);
  for (T& x : row) x = static_cast<T>(normal(rng));
  return row;
}

/// Every length around the widths of registers and lanes.
std::vector<std::size_t> lengths() {
  std::vector<std::size_t> result;
  for (std::size_t n = 0; n <= 100; ++n) result.push_back(n);
  result.insert(result.end(), {127, 128, 129, 511, 512, 1000});
  return result;
}

} // namespace

TEMPLATE_TEST_CASE("steps on a row do to each element what they say", "", float, double) {
  using T = TestType;
  std::mt19937 rng(1);
  for (const mha::Kernels<T>* kernels : mha::available_kernels<T>())
    for (const std::size_t n : lengths()) {
      CAPTURE(kernels->name, n);
      const auto row = random_row<T>(n, rng), other = random_row<T>(n, rng);
      const T value = static_cast<T>(1.7);
      // One element more than the row has: it must stay.
      const auto applied = [&](const auto& step) {
        std::vector<T> result = row;
        result.push_back(42);
        step(result.data());
        CHECK(result.back() == 42);
        result.pop_back();
        return result;
      };
      const auto expected = [&](const auto& step) {
        std::vector<T> result = row;
        for (std::size_t i = 0; i < n; ++i) result[i] = step(row[i], other[i]);
        return result;
      };
      CHECK(same_bits(applied([&](T* r) { kernels->row_scale(r, n, value); }),
                      expected([&](T x, T) { return x * value; })));
      CHECK(same_bits(applied([&](T* r) { kernels->row_add(r, other.data(), n); }),
                      expected([&](T x, T y) { return x + y; })));
      CHECK(same_bits(applied([&](T* r) { kernels->row_subtract(r, n, value); }),
                      expected([&](T x, T) { return x - value; })));
      CHECK(same_bits(applied([&](T* r) { kernels->row_divide(r, n, value); }),
                      expected([&](T x, T) { return x / value; })));
      CHECK(same_bits(applied([&](T* r) { mha::row_softcap(r, n, value); }), expected([&](T x, T) {
                        mha::maths::tanh_row(&x, 1, value);
                        return value * x;
                      })));
    }
}

TEMPLATE_TEST_CASE("row_divide rounds as a division does", "", float, double) {
  // Wide registers divide by multiplying and correcting: quotients of every kind, and the ends of
  // the range, where they do not.
  using T = TestType;
  using Limits = std::numeric_limits<T>;
  std::mt19937_64 random(3);
  std::uniform_real_distribution<T> mantissa(1, 2);
  std::uniform_int_distribution<int> exponent(-120, 60);
  std::vector<T> row(1003), special{0,
                                    -T(0),
                                    1,
                                    Limits::min(),
                                    Limits::denorm_min(),
                                    Limits::max(),
                                    Limits::infinity(),
                                    -Limits::infinity(),
                                    Limits::quiet_NaN(),
                                    T(-3)};
  for (int round = 0; round < 200; ++round) {
    for (T& x : row) x = std::ldexp(mantissa(random), round % 4 == 0 ? exponent(random) : -7);
    for (T& x : row)
      if (round % 3 == 0 && random() % 4 == 0) x = special[random() % special.size()];
    T divisor = std::ldexp(mantissa(random), round % 5 == 0 ? exponent(random) : 3);
    if (round % 7 == 0) divisor = std::nextafter(divisor * 0 + 16, T(0)); // a mantissa of ones
    if (round % 41 == 0) divisor = special[random() % special.size()];
    for (const auto* kernels : mha::available_kernels<T>()) {
      std::vector<T> quotients = row, expected = row;
      kernels->row_divide(quotients.data(), quotients.size(), divisor);
      for (T& x : expected) x /= divisor;
      for (std::size_t i = 0; i < row.size(); ++i)
        if (std::isnan(expected[i]))
          REQUIRE(std::isnan(quotients[i]));
        else
          REQUIRE(same_bits(quotients[i], expected[i]));
    }
  }
}

TEMPLATE_TEST_CASE("row_max finds the largest element, and NaN anywhere", "", float, double) {
  using T = TestType;
  std::mt19937 rng(2);
  for (const mha::Kernels<T>* kernels : mha::available_kernels<T>()) {
    CAPTURE(kernels->name);
    CHECK(kernels->row_max(nullptr, 0) == -inf<T>);
    for (const std::size_t n : lengths()) {
      if (n == 0) continue;
      CAPTURE(n);
      auto row = random_row<T>(n, rng);
      CHECK(kernels->row_max(row.data(), n) == *std::max_element(row.begin(), row.end()));
      for (T& x : row) x = -1 - std::fabs(x); // below the zeros of a masked register
      CHECK(kernels->row_max(row.data(), n) == *std::max_element(row.begin(), row.end()));
      std::vector<T> masked(n, -inf<T>);
      CHECK(kernels->row_max(masked.data(), n) == -inf<T>);
      masked[n / 2] = inf<T>;
      CHECK(kernels->row_max(masked.data(), n) == inf<T>);
      for (std::size_t i = 0; i < n; ++i) {
        std::vector<T> with_nan = row;
        with_nan[i] = not_a_number<T>;
        if (!std::isnan(kernels->row_max(with_nan.data(), n))) FAIL("NaN lost at " << i);
      }
    }
  }
}

TEMPLATE_TEST_CASE("row_sum agrees with the sum in long double, and between the sets", "", float,
                   double) {
  using T = TestType;
  std::mt19937 rng(3);
  for (const std::size_t n : lengths()) {
    const auto row = random_row<T>(n, rng);
    const T portable = mha::available_kernels<T>().front()->row_sum(row.data(), n);
    for (const mha::Kernels<T>* kernels : mha::available_kernels<T>()) {
      CAPTURE(kernels->name, n);
      long double sum = 0, size = 0;
      for (const T x : row) sum += x, size += std::fabs(x);
      const T found = kernels->row_sum(row.data(), n);
      CHECK(std::fabs(static_cast<long double>(found) - sum) <=
            size * std::numeric_limits<T>::epsilon() * 20);
      CHECK(same_bits(found, portable));
    }
  }
}

TEMPLATE_TEST_CASE("row_exp_sum returns row_sum of what it leaves", "", float, double) {
  using T = TestType;
  std::mt19937 rng(4);
  for (const mha::Kernels<T>* kernels : mha::available_kernels<T>())
    for (const std::size_t n : lengths()) {
      CAPTURE(kernels->name, n);
      auto row = random_row<T>(n, rng);
      const T sum = kernels->row_exp_sum(row.data(), n, T(3), 1);
      CHECK(same_bits(sum, kernels->row_sum(row.data(), n)));
    }
}

TEMPLATE_TEST_CASE("subtracting first gives the bits of exp with a shift", "", float, double) {
  using T = TestType;
  std::mt19937 rng(5);
  for (const mha::Kernels<T>* kernels : mha::available_kernels<T>())
    for (const std::size_t n : lengths()) {
      CAPTURE(kernels->name, n);
      const auto row = random_row<T>(n, rng, 30);
      const T shift = n == 0 ? T(0) : kernels->row_max(row.data(), n);
      auto at_once = row, in_steps = row;
      const T sum_at_once = kernels->row_exp_sum(at_once.data(), n, shift, 1);
      kernels->row_subtract(in_steps.data(), n, shift);
      const T sum_in_steps = kernels->row_exp_sum(in_steps.data(), n, T(0), 1);
      CHECK(same_bits(at_once, in_steps));
      CHECK(same_bits(sum_at_once, sum_in_steps));
    }
}

TEMPLATE_TEST_CASE("an element's exponential does not depend on its place or the row's length", "",
                   float, double) {
  using T = TestType;
  std::mt19937 rng(6);
  const auto row = random_row<T>(200, rng, 30);
  for (const mha::Kernels<T>* kernels : mha::available_kernels<T>()) {
    CAPTURE(kernels->name);
    auto whole = row;
    kernels->row_exp_sum(whole.data(), whole.size(), T(0), 1);
    for (std::size_t first = 0; first < row.size(); ++first)
      for (const std::size_t n : {1u, 3u, 40u}) {
        std::vector<T> part(row.begin() + static_cast<std::ptrdiff_t>(first), row.end());
        part.resize(std::min(part.size(), n));
        kernels->row_exp_sum(part.data(), part.size(), T(0), 1);
        if (std::memcmp(part.data(), &whole[first], part.size() * sizeof(T)) != 0)
          FAIL("differs from element " << first);
      }
  }
}

TEMPLATE_TEST_CASE("masked elements after a row do not change its sum", "", float, double) {
  using T = TestType;
  std::mt19937 rng(7);
  for (const mha::Kernels<T>* kernels : mha::available_kernels<T>())
    for (const std::size_t n : lengths()) {
      auto row = random_row<T>(n, rng);
      auto longer = row;
      longer.resize(n + 200 + n % 7, -inf<T>);
      CAPTURE(kernels->name, n);
      const T sum = kernels->row_exp_sum(row.data(), n, T(1), 1);
      CHECK(same_bits(sum, kernels->row_exp_sum(longer.data(), longer.size(), T(1), 1)));
    }
}

TEMPLATE_TEST_CASE("sets with fused multiply-adds give the same exponentials", "", float, double) {
  using T = TestType;
  std::mt19937 rng(8);
  const auto sets = mha::available_kernels<T>();
  for (int round = 0; round < 200; ++round) {
    const auto row = random_row<T>(1000, rng, round % 2 == 0 ? 3.0 : sizeof(T) == 4 ? 60.0 : 400.0);
    std::vector<std::vector<T>> results;
    for (std::size_t s = 1; s < sets.size(); ++s) {
      results.push_back(row);
      const T sum = sets[s]->row_exp_sum(results.back().data(), row.size(), T(0), 1);
      results.back().push_back(sum);
      CHECK(same_bits(results.front(), results.back()));
    }
  }
}

TEMPLATE_TEST_CASE("the exponential of special values is exact", "", float, double) {
  using T = TestType;
  for (const mha::Kernels<T>* kernels : mha::available_kernels<T>())
    for (std::size_t place = 0; place < 40; ++place) {
      CAPTURE(kernels->name, place);
      const auto exponential = [&](T x) {
        std::vector<T> row(40, T(-1));
        row[place] = x;
        kernels->row_exp_sum(row.data(), row.size(), T(0), 1);
        return row[place];
      };
      CHECK(same_bits(exponential(T(0)), T(1)));
      CHECK(same_bits(exponential(-T(0)), T(1)));
      CHECK(same_bits(exponential(-inf<T>), T(0)));
      CHECK(same_bits(exponential(std::numeric_limits<T>::lowest()), T(0)));
      CHECK(exponential(inf<T>) == inf<T>);
      CHECK(exponential(std::numeric_limits<T>::max()) == inf<T>);
      CHECK(exponential(sizeof(T) == 4 ? T(88.73) : T(709.79)) == inf<T>);
      CHECK(std::isfinite(exponential(sizeof(T) == 4 ? T(88.72) : T(709.78))));
      CHECK(std::isnan(exponential(not_a_number<T>)));
      CHECK(same_bits(exponential(std::numeric_limits<T>::denorm_min()), T(1)));
    }
}

namespace {

/// |found − exact| in units of the last place of exact, in T.
template <class T, class Wide> double error_in_ulp(T found, Wide exact) {
  const T rounded = static_cast<T>(exact);
  if (std::isinf(rounded)) return std::isinf(found) ? 0 : 1e9;
  int exponent = 0;
  std::frexp(exact, &exponent);
  const int digits = std::numeric_limits<T>::digits;
  exponent = std::max(exponent, std::numeric_limits<T>::min_exponent) - digits;
  return static_cast<double>(std::fabs(static_cast<Wide>(found) - exact) /
                             std::ldexp(Wide(1), exponent));
}

} // namespace

TEST_CASE("float exponentials are within 2 ulp from the smallest to overflow") {
  // Every 97th float from −104 to 89.
  std::vector<float> inputs(1 << 16), row;
  std::vector<double> exact(inputs.size());
  std::vector<double> worst(mha::available_kernels<float>().size(), 0);
  std::size_t count = 0;
  const auto flush = [&] {
    for (std::size_t i = 0; i < count; ++i) exact[i] = std::exp(static_cast<double>(inputs[i]));
    for (std::size_t s = 0; s < worst.size(); ++s) {
      row.assign(inputs.begin(), inputs.begin() + static_cast<std::ptrdiff_t>(count));
      mha::available_kernels<float>()[s]->row_exp_sum(row.data(), count, 0.0f, 1);
      for (std::size_t i = 0; i < count; ++i)
        worst[s] = std::max(worst[s], error_in_ulp(row[i], exact[i]));
    }
    count = 0;
  };
  for (const float end : {-104.0f, 89.0f})
    for (std::uint32_t bits = std::signbit(end) ? 0x80000000u : 0u;; bits += 97) {
      float x;
      std::memcpy(&x, &bits, sizeof x);
      if (std::fabs(x) > std::fabs(end)) break;
      inputs[count++] = x;
      if (count == inputs.size()) flush();
    }
  flush();
  for (std::size_t s = 0; s < worst.size(); ++s) {
    CAPTURE(mha::available_kernels<float>()[s]->name);
    CHECK(worst[s] <= 2);
  }
}

TEST_CASE("double exponentials are within 2 ulp from the smallest to overflow") {
  std::mt19937_64 rng(9);
  std::uniform_real_distribution<double> anywhere(-746, 710), near(-2, 2), tiny(-745.2, -707);
  std::vector<double> inputs, row;
  for (int i = 0; i < 400000; ++i) {
    inputs.push_back(anywhere(rng));
    inputs.push_back(near(rng));
    inputs.push_back(tiny(rng));
  }
  std::vector<long double> exact;
  for (const double x : inputs) exact.push_back(std::exp(static_cast<long double>(x)));
  for (const mha::Kernels<double>* kernels : mha::available_kernels<double>()) {
    CAPTURE(kernels->name);
    row = inputs;
    kernels->row_exp_sum(row.data(), row.size(), 0.0, 1);
    double worst = 0;
    for (std::size_t i = 0; i < row.size(); ++i)
      worst = std::max(worst, error_in_ulp(row[i], exact[i]));
    CHECK(worst <= 2);
  }
}

TEMPLATE_TEST_CASE("the functions of rows.hpp are those of the last set", "", float, double) {
  using T = TestType;
  std::mt19937 rng(10);
  const auto row = random_row<T>(77, rng);
  const mha::Kernels<T>& last = *mha::available_kernels<T>().back();
  auto a = row, b = row;
  CHECK(mha::row_max(a.data(), a.size()) == last.row_max(b.data(), b.size()));
  CHECK(mha::row_sum(a.data(), a.size()) == last.row_sum(b.data(), b.size()));
  CHECK(mha::row_exp_sum(a.data(), a.size(), T(2)) ==
        last.row_exp_sum(b.data(), b.size(), T(2), 1));
  mha::row_scale(a.data(), a.size(), T(3)), last.row_scale(b.data(), b.size(), T(3));
  mha::row_add(a.data(), row.data(), a.size()), last.row_add(b.data(), row.data(), b.size());
  mha::row_subtract(a.data(), a.size(), T(5)), last.row_subtract(b.data(), b.size(), T(5));
  mha::row_divide(a.data(), a.size(), T(7)), last.row_divide(b.data(), b.size(), T(7));
  CHECK(same_bits(a, b));
}
