// Agreement of two arrays: what is judged, by which sum, and which number differs most.

#include <mha/diagnose/agreement.hpp>
#include <mha/tensor/not_saved.hpp>

#include <catch2/catch.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <type_traits>
#include <utility>
#include <vector>

using namespace mha;

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity(),
                 no_number = std::numeric_limits<double>::quiet_NaN();

template <class T> Tensor tensor_of_rows(const std::vector<double>& numbers, const Shape& shape) {
  Tensor tensor(std::is_same_v<T, double> ? DType::f64 : DType::f32, shape);
  for (std::size_t i = 0; i < numbers.size(); ++i)
    tensor.as_mutable<T>()[i] = static_cast<T>(numbers[i]);
  return tensor;
}

/// The documented formulas, number by number, without rows that are taken together.
template <class T>
Agreement by_formula(const Tensor& ours, const Tensor& theirs, double tolerance) {
  const auto a = ours.as<T>(), b = theirs.as<T>();
  const std::size_t width = ours.rank() == 0 ? 1 : ours.shape().back();
  double typical = 0, count = 0;
  for (const T number : b)
    if (std::fabs(static_cast<double>(number)) < 1e4)
      typical += static_cast<double>(number) * static_cast<double>(number), ++count;
  typical = count > 0 ? std::sqrt(typical / count) : 0;
  Agreement result;
  result.agrees = true;
  double most = -1, squares = 0, differences = 0, worst_row = 0, row = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (i % width == 0) row = 0;
    const double x = static_cast<double>(a[i]), y = static_cast<double>(b[i]);
    const bool hidden = (x == -infinity && y <= -1e3) || (y == -infinity && x <= -1e3);
    if (is_not_saved(y) || hidden || (std::isnan(x) && std::isnan(y)) || (std::isinf(x) && x == y))
      continue;
    const bool finite = std::isfinite(x) && std::isfinite(y), usual = std::fabs(y) < 1e4;
    const double distance = finite ? std::fabs(x - y) : infinity;
    if (!finite || distance > tolerance * (std::fabs(y) + typical)) result.agrees = false;
    if (distance > most) most = distance, result.worst = i, result.ours = x, result.theirs = y;
    const double counted = !finite ? typical
                           : usual ? std::min(distance, 1e4 * typical)
                                   : std::min(distance / std::fabs(y), 1.0) * typical;
    differences += counted * counted, row += counted * counted;
    squares += finite && usual ? y * y : typical * typical;
    worst_row = std::max(worst_row, row);
  }
  result.error = std::sqrt(differences / squares);
  result.error_elsewhere = std::sqrt(std::max(0.0, differences - worst_row) / squares);
  return result;
}

bool same(double a, double b) {
  return a == b || (std::isnan(a) && std::isnan(b));
}

template <class T> void check_as_formula(const std::vector<double>& ours,
                                         const std::vector<double>& theirs, const Shape& shape) {
  const Tensor a = tensor_of_rows<T>(ours, shape), b = tensor_of_rows<T>(theirs, shape);
  for (const double tolerance : {0.0, 1e-3, 1e9}) {
    const Agreement found = agreement_of(a, b, tolerance),
                    expected = by_formula<T>(a, b, tolerance);
    CHECK(found.agrees == expected.agrees);
    CHECK(found.error == expected.error);
    CHECK(found.error_elsewhere == expected.error_elsewhere);
    CHECK(found.worst == expected.worst);
    CHECK(same(found.ours, expected.ours));
    CHECK(same(found.theirs, expected.theirs));
  }
}

} // namespace

TEMPLATE_TEST_CASE("agreement: rows with and without unusual numbers are judged by one formula", "",
                   float, double) {
  std::mt19937 random(5);
  std::normal_distribution<double> normal;
  // Of ours and of theirs: neither, either and both beyond what a usual row has.
  const std::vector<std::pair<double, double>> unusual{{no_number, no_number},
                                                       {no_number, 1.0},
                                                       {1.0, no_number},
                                                       {infinity, infinity},
                                                       {-infinity, infinity},
                                                       {2.0, infinity},
                                                       {infinity, 2.0},
                                                       {-infinity, -1000.0},
                                                       {-1000.0, -infinity},
                                                       {-999.0, -infinity},
                                                       {-infinity, -999.0},
                                                       {3.0, not_saved()},
                                                       {no_number, not_saved()},
                                                       {1e4, 1e4},
                                                       {9999.0, 1e4},
                                                       {1e4, 9999.0},
                                                       {1e30, 1.0},
                                                       {1.0, 1e30},
                                                       {0.0, 0.0}};
  for (const Shape& shape : {Shape{7, 5}, Shape{35, 1}, Shape{1, 35}, Shape{35}, Shape{5, 1, 7}}) {
    std::vector<double> ours, theirs;
    for (int i = 0; i < 35; ++i) {
      theirs.push_back(normal(random));
      ours.push_back(theirs.back() + 1e-3 * normal(random));
    }
    check_as_formula<TestType>(ours, theirs, shape);
    check_as_formula<TestType>(theirs, theirs, shape);
    for (const auto& [a, b] : unusual)
      for (const std::size_t at : {std::size_t{0}, std::size_t{17}, std::size_t{34}}) {
        std::vector<double> x = ours, y = theirs;
        x[at] = a, y[at] = b;
        INFO(a << " and " << b << " at " << at);
        check_as_formula<TestType>(x, y, shape);
      }
  }
  check_as_formula<TestType>({2.5}, {2.0}, {});
  const Tensor none = tensor_of_rows<TestType>({}, {0, 3});
  CHECK(agreement_of(none, none, 0).agrees);
  CHECK_FALSE(agreement_of(none, tensor_of_rows<TestType>({}, {3, 0}), 0).agrees);
}
