#include <mha/compare/elements.hpp>

#include <catch2/catch.hpp>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

using namespace mha;

namespace {

void require_same(const ComparedElements& a, const ComparedElements& b) {
  CHECK(a.same_bits == b.same_bits);
  CHECK(a.count == b.count);
  CHECK(a.mismatched == b.mismatched);
  CHECK(a.finite == b.finite);
  CHECK(a.dot == b.dot);
  CHECK(a.aa == b.aa);
  CHECK(a.rr == b.rr);
  CHECK(a.ulp.largest == b.ulp.largest);
  CHECK(a.ulp.beyond == b.ulp.beyond);
  for (const auto& [x, y] : {std::pair(a.all, b.all), std::pair(a.wrong, b.wrong)}) {
    CHECK(x.any == y.any);
    CHECK(x.abs == y.abs);
    CHECK(x.rel == y.rel);
    CHECK(x.index == y.index);
    CHECK((x.ours == y.ours || (std::isnan(x.ours) && std::isnan(y.ours))));
    CHECK((x.theirs == y.theirs || (std::isnan(x.theirs) && std::isnan(y.theirs))));
  }
}

} // namespace

TEST_CASE("elements: a row in blocks is what its elements are one by one") {
  std::mt19937_64 engine(5);
  std::normal_distribution<float> normal;
  const auto one_of = [&](std::size_t n) { return engine() % n; };
  const std::vector<float> odd{0.0F,
                               -0.0F,
                               std::numeric_limits<float>::infinity(),
                               -std::numeric_limits<float>::infinity(),
                               std::numeric_limits<float>::quiet_NaN(),
                               static_cast<float>(not_saved()),
                               -1e9F,
                               -6000.0F,
                               1e-42F,
                               3e38F};
  for (int run = 0; run < 4000; ++run) {
    const std::size_t count = one_of(70), step = 1 + one_of(3);
    const std::ptrdiff_t our_step = 1 + static_cast<std::ptrdiff_t>(one_of(2));
    std::vector<float> ours(count * 2 + 1), theirs(count * step + 9), allowed(theirs.size());
    const float by = std::array{0.0F, 1e-7F, 1e-5F, 0.1F}[one_of(4)];
    for (float& a : ours) a = normal(engine);
    for (float& a : theirs) a = normal(engine);
    for (float& a : allowed) a = std::fabs(normal(engine)) * by;
    const std::size_t first = one_of(9);
    for (std::size_t i = 0; i < count; ++i) {
      float& a = ours[i * static_cast<std::size_t>(our_step)];
      if (run % 3 > 0 && one_of(40) == 0) a = odd[one_of(odd.size())];
      theirs[first + i * step] = a + by * normal(engine) * static_cast<float>(one_of(3));
      if (run % 3 > 1 && one_of(40) == 0) theirs[first + i * step] = odd[one_of(odd.size())];
    }
    const Elements<float, float> row{
        ours.data(), our_step, theirs.data(), run % 2 == 0 ? nullptr : allowed.data(),
        first,       step,     count};
    const Judge by_rule{
        {by * 0.5, run % 5 == 0 ? 0.0 : 1e-6}, DType::f32, run % 7 == 0 ? 0.0 : 1e-3, run % 4 == 0};
    const auto both_masked = [](std::size_t i) { return i % 2 == 0; };
    ComparedElements blocks, alone;
    for (int again = 0; again < 2; ++again) { // the second row finds what the first one left
      compare_elements(row, by_rule, both_masked, blocks);
      ComparedRow sums;
      compare_one_by_one(row, by_rule, both_masked, sums, alone);
      alone.dot += sums.dot, alone.aa += sums.aa, alone.rr += sums.rr, alone.ulp.add(sums.ulp);
    }
    INFO("run " << run);
    require_same(blocks, alone);
  }
}
