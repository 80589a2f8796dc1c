#include <mha/ranks/together.hpp>

#include "support/compare.hpp"
#include "support/library_input.hpp"
#include "support/thread_ranks.hpp"
#include <mha/heads/measure_results.hpp>
#include <mha/observe/pool.hpp>
#include <mha/observe/several.hpp>
#include <mha/observe/summary.hpp>
#include <mha/observe/trace.hpp>

#include <catch2/catch.hpp>

using namespace mha;
using Catch::Contains;

namespace {

/// 300 queries or more, so that there are several units a head.
Layer long_layer(std::uint64_t seed) {
  const std::vector<Variant> variants{Variant::causal};
  Limits limits;
  limits.tokens = 700, limits.heads = 4, limits.width = 5, limits.d_model = 7;
  for (;; ++seed) {
    const RandomLayer drawn = random_layer(seed, variants, true, limits);
    if (drawn.layer.T() > 300) return library_layer(drawn.layer, drawn.form);
  }
}

const std::vector<Stage> kept{Stage::k, Stage::row_max, Stage::weights, Stage::output};

bool same(const Summary& a, const Summary& b) {
  return a.count == b.count && a.finite == b.finite && a.min == b.min && a.max == b.max &&
         a.sum == b.sum;
}

} // namespace

TEST_CASE("what ranks keep and sum up together has the bits of one", "[ranks]") {
  const Layer layer = long_layer(50);
  const Trace whole = trace(layer, kept);
  Summaries summed(layer, whole.wants());
  compute(layer, make_plan(layer, whole.wants()), summed);
  for (std::size_t count = 2; count <= 5; ++count) {
    Trace first(layer, kept);
    Summaries sums(layer, first.wants());
    const std::string message = run_ranks(count, [&](Ranks& ranks) {
      Trace trace(layer, kept);
      Summaries summaries(layer, trace.wants());
      SeveralMergeable all;
      all.add(ranks.is_first() ? first : trace);
      all.add(ranks.is_first() ? sums : summaries);
      compute_together(ranks, layer, make_plan(layer, all.wants()), all, 1);
    });
    INFO(count << " ranks");
    CHECK(message == "");
    for (Stage stage : kept) {
      INFO(name_of(stage));
      CHECK(compare_bits(first.value(stage), whole.value(stage)) == "");
      CHECK(same(sums.of(stage), summed.of(stage)));
    }
  }
}

TEST_CASE("a rank that fails ends the others with its message", "[ranks]") {
  const Layer layer = long_layer(60);
  const std::string message = run_ranks(3, [&](Ranks& ranks) {
    if (ranks.rank() == 1) fail("no room");
    Trace trace(layer, kept);
    compute_together(ranks, layer, make_plan(layer, trace.wants()), trace, 1);
  });
  CHECK(message == "rank 1 of 3 on test: no room");
}

TEST_CASE("ranks that read different numbers put nothing together", "[ranks]") {
  const Layer layer = long_layer(70);
  Layer other = layer;
  Tensor X = Tensor::of<float>(layer.X.shape(), layer.X.as<float>());
  X.as_mutable<float>()[0] += 1;
  other.X = X;
  const std::string message = run_ranks(3, [&](Ranks& ranks) {
    const Layer& mine = ranks.rank() == 2 ? other : layer;
    Pool pool(mine, Stage::weights, {}, {9, 11});
    compute_together(ranks, mine, make_plan(mine, pool.wants()), pool, 1);
  });
  CHECK_THAT(message, Contains("rank 2 of 3 reads another layer"));
  CHECK_THAT(message, !Contains("|"));
}

TEST_CASE("what a rank cannot read of another's bytes leaves nobody waiting", "[ranks]") {
  const std::string message = run_ranks(4, [&](Ranks& ranks) {
    ranks.to_first(std::string(1000 * ranks.rank(), 'x'),
                   [](std::size_t rank, std::string_view bytes) {
                     fail("{} bytes of rank {} are broken", bytes.size(), rank);
                   });
  });
  CHECK(message == "1000 bytes of rank 1 are broken");
}

TEST_CASE("bytes that are cut short, or too many, are an error", "[ranks]") {
  const Layer layer = long_layer(80);
  const StageSet available =
      StageSet().add(Stage::weights).add(Stage::row_max).add(Stage::logsumexp);
  const auto made = [&](std::size_t which) -> std::unique_ptr<Mergeable> {
    if (which == 0) return std::make_unique<Trace>(layer, kept);
    if (which == 1) return std::make_unique<Summaries>(layer, available);
    if (which == 2)
      return std::make_unique<Pool>(layer, Stage::weights, Selection{}, Pool::Size{5, 6});
    return std::make_unique<RowMeasures>(layer, MeasureRequest{}, available);
  };
  for (std::size_t which = 0; which < 4; ++which) {
    INFO("observer " << which);
    const std::unique_ptr<Mergeable> from = made(which), to = made(which);
    const Plan part = shard_of(layer, make_plan(layer, from->wants()), {1, 2});
    compute(layer, part, *from, 1);
    const std::string bytes = from->part_bytes(layer, part);
    REQUIRE(bytes.size() > 100);
    for (const std::size_t size : {bytes.size() - 1, bytes.size() / 2 + 3, std::size_t{1}})
      CHECK_THROWS_WITH(to->merge_part(layer, part, bytes.substr(0, size)),
                        Contains("a rank has sent too little"));
    CHECK_THROWS_WITH(to->merge_part(layer, part, bytes + "x"), Contains("a rank has sent"));
    CHECK_NOTHROW(to->merge_part(layer, part, bytes));
  }
}

TEST_CASE("a row of cells that no map has is an error", "[ranks]") {
  const Layer layer = long_layer(90);
  Pool pool(layer, Stage::weights, {}, {5, 6});
  std::map<std::size_t, std::vector<std::size_t>> row{
      {layer.dims.B * layer.dims.H, std::vector<std::size_t>(11)}}; // 96 bytes of place and cells
  ShareBytes bytes;
  bytes.entries(row, [&](std::size_t& map, std::vector<std::size_t>& others) {
    bytes.field(map), bytes.fields(std::span(others));
  });
  CHECK_THROWS_WITH(pool.merge_part(layer, make_plan(layer, pool.wants()), bytes.take()),
                    Contains("a rank has sent row 0 of map"));
}
