#include <mha/observe/summary.hpp>

#include <catch2/catch.hpp>

#include <cmath>

using namespace mha;

TEST_CASE("a summary is over the finite numbers, and counts the others") {
  const double inf = std::numeric_limits<double>::infinity();
  std::vector<double> values{3, -inf, -1, std::nan(""), 4, inf};
  for (int i = 0; i < 100; ++i) values.push_back(2);
  const Summary summary = summary_of(Tensor::of<double>({values.size()}, values));
  CHECK(summary.count == 106);
  CHECK(summary.finite == 103);
  CHECK(summary.nan == 1);
  CHECK(summary.infinite == 2);
  CHECK(summary.min == -1);
  CHECK(summary.max == 4);
  CHECK(summary.mean() == Approx(206.0 / 103));
}

TEST_CASE("a summary of no numbers has none") {
  const Summary summary = summary_of(Tensor(DType::f32, {0, 4}));
  CHECK(summary.count == 0);
  CHECK(summary.finite == 0);
  CHECK(summary.mean() == 0);
}

TEST_CASE("a summary reads whole numbers and booleans too") {
  Tensor flags(DType::boolean, {3});
  flags.raw_mutable()[1] = std::byte{1};
  CHECK(summary_of(flags).max == 1);
  CHECK(summary_of(flags).sum == 1);
}
