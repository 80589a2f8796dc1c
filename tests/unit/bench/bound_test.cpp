#include "support/places.hpp"
#include <mha/bench/bench.hpp>
#include <mha/bench/work.hpp>
#include <mha/model/opened_model.hpp>

#include <catch2/catch.hpp>

using mha::MemoryLevel;

namespace {

/// 100 operations a second of products, 10 of vectors; L2 read at 8, memory copied at 2 bytes.
mha::MachineRates rates() {
  mha::MachineRates rates;
  rates.products = 100, rates.vectors = 10;
  rates.bytes[0].read = 8, rates.bytes[2].copy = 2;
  return rates;
}

std::pair<double, std::string> bound(const mha::Work& work, double kept_bytes) {
  return mha::bound_of(work, kept_bytes, MemoryLevel::cache_2, MemoryLevel::memory, rates());
}

} // namespace

TEST_CASE("a stage's bound: products and exponentials, or reading where that takes longer") {
  using Bound = std::pair<double, std::string>;
  CHECK(bound({}, 0) == Bound{0, ""});
  CHECK(bound({200, 0, 0}, 0) == Bound{2, "multiply-adds"});
  CHECK(bound({0, 10, 0}, 0) == Bound{22, "exponentials"}); // eleven multiply-adds each
  CHECK(bound({200, 10, 0}, 0) == Bound{24, "exponentials"});
  CHECK(bound({200, 0, 8}, 0) == Bound{2, "multiply-adds"}); // read meanwhile
  CHECK(bound({200, 0, 24}, 0) == Bound{3, "reading from L2"});
  CHECK(bound({200, 0, 0}, 10) == Bound{7, "writing to memory"});
}

TEST_CASE("a machine's places: what is larger than a cache lies in the next") {
  const mha::Machine<float> machine(1);
  CHECK(machine.level_of(1 << 10) == MemoryLevel::cache_2);
  CHECK(machine.level_of(1e12) == MemoryLevel::memory);
  double bytes = 1;
  for (MemoryLevel last = MemoryLevel::cache_2; bytes < 1e12; bytes *= 2) {
    CHECK(machine.level_of(bytes) >= last);
    last = machine.level_of(bytes);
  }
}

TEST_CASE("a machine is measured where a layer needs it") {
  mha::Machine<double> machine(2);
  machine.measure_products();
  machine.measure_rest({100, 0});
  const mha::MachineRates& rates = machine.rates();
  CHECK(rates.products > 0);
  CHECK(rates.vectors > 0);
  CHECK(rates.exponentials > 0);
  CHECK(rates.of(MemoryLevel::cache_2).read > 0);
  CHECK(rates.of(MemoryLevel::cache_2).copy > 0);
  CHECK(rates.of(MemoryLevel::memory).read == 0);
}

TEST_CASE("work: the logits of chosen positions are products of their rows alone") {
  mha::RunRequest request;
  request.sources = {mha::test::source_folder() + "/data/bard-gpt2"};
  request.text.ids = {"5,17,20,31,8,9,44"};
  request.shows_ends = true;
  const mha::Layer ends = mha::OpenedModel(request).load("").layer;
  const auto work = [&](const std::vector<std::size_t>& positions) {
    mha::Selection selection;
    selection.query = mha::IndexList::of_indices(positions, mha::message("<query>"));
    const mha::StageWork of = mha::work_of(ends, make_plan(ends, {mha::Stage::logits}, selection));
    return of[mha::index_of(mha::Stage::logits)];
  };
  const auto weights = static_cast<double>(ends.ends->head.decoder.W.count());
  CHECK(weights > 0);
  CHECK(work({6}).operations == 2 * weights);
  CHECK(work({6}).read_bytes == 4 * weights);
  CHECK(work({2, 3}).operations == 4 * weights);
}
