#include <mha/diagnose/search.hpp>

#include <catch2/catch.hpp>

using namespace mha;

namespace {

Tensor row(std::vector<float> numbers) {
  return Tensor::of<float>({1, 1, numbers.size()}, std::span<const float>(numbers));
}

/// Saved stages that are the stream itself, each times a number of its own.
class Multiples final : public StreamView {
public:
  explicit Multiples(std::vector<double> factors, Tensor stream, double rounding = 0)
      : factors_(std::move(factors)), theirs_(std::move(stream)), rounding_(rounding) {}
  std::size_t stages() const override { return factors_.size(); }
  Stage stage(std::size_t i) const override { return i == 0 ? Stage::x : Stage::output; }
  double rounding(std::size_t) const override { return rounding_; }
  Agreement agreement(std::size_t i, const Tensor& stream, const Change*) const override {
    const auto times = [&](const Tensor& numbers) {
      std::vector<float> all(numbers.as<float>().begin(), numbers.as<float>().end());
      for (float& one : all) one *= static_cast<float>(factors_[i]);
      return row(all);
    };
    return agreement_of(times(stream), times(theirs_), 1e-6);
  }

private:
  std::vector<double> factors_;
  Tensor theirs_;
  double rounding_;
};

StreamCandidate candidate(std::string id, std::vector<float> numbers) {
  return {{Change{std::move(id)}}, [numbers] { return row(numbers); }};
}

} // namespace

TEST_CASE("search: the change whose stream is the reference's explains all saved stages") {
  const Multiples view({1, 3}, row({1, 2, 3}));
  Search search(view, row({1, 2, 4}));
  search.try_one(candidate("nothing", {1, 2, 4}));
  search.try_one(candidate("less", {1, 2, 3.4F}));
  CHECK_FALSE(search.is_found());
  search.try_one({{Change{"impossible"}}, []() -> Tensor { fail("not here"); }});
  CHECK_FALSE(search.is_found());
  search.try_one(candidate("right", {1, 2, 3.000001F}));
  search.try_one(candidate("other", {1, 2, 3.000001F}));
  const std::optional<Diagnosis> found = search.found();
  REQUIRE(found);
  CHECK(found->changes[0].id == "right"); // the first of those that are as good
  CHECK(found->same_numbers == std::vector<std::string>{"other"});
  CHECK(found->stages.size() == 2);
  CHECK(found->error_after < 1e-6);
}

TEST_CASE("search: what leaves half of a difference is no better by chance") {
  const Multiples view({1}, row({1, 1, 1}));
  const float off = 1.5e-6F; // a tolerance and a half
  Search by_chance(view, row({1 + off, 1 - off, 1 + off}));
  by_chance.try_one(candidate("a", {1 + 0.6F * off, 1 - 0.6F * off, 1 + 0.6F * off}));
  CHECK_FALSE(by_chance.is_found());
  by_chance.try_one(candidate("b", {1, 1, 1}));
  CHECK(by_chance.is_found());
}

TEST_CASE("search: rounding of the layers before may be left, and nothing else of its size") {
  const Multiples exact({1}, row({1, 2, 3})), rounded({1}, row({1, 2, 3}), 1e-2);
  const std::vector<float> nearly{1.01F, 2, 3};
  Search by_exact(exact, row({2, 3, 4})), by_rounded(rounded, row({2, 3, 4}));
  by_exact.try_one(candidate("nearly", nearly)), by_rounded.try_one(candidate("nearly", nearly));
  CHECK_FALSE(by_exact.is_found());
  CHECK(by_rounded.is_found());
}
