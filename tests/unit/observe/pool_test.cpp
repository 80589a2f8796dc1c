#include "support/library_input.hpp"
#include "support/thread_ranks.hpp"
#include <mha/layer/graph.hpp>
#include <mha/observe/pool.hpp>
#include <mha/observe/trace.hpp>
#include <mha/ranks/together.hpp>

#include <catch2/catch.hpp>

#include <cmath>
#include <cstring>

using namespace mha;

namespace {

Selection selection_of(const std::string& query, const std::string& key,
                       const std::string& head = "") {
  Selection selection;
  if (!query.empty()) selection.query.emplace(query, "--query");
  if (!key.empty()) selection.key.emplace(key, "--key");
  if (!head.empty()) selection.head.emplace(head, "--head");
  return selection;
}

/// Whether a cell's number does not count: masked, by the stage `masked` as it was traced.
bool hidden(Stage stage, double value, double masked) {
  if (stage == Stage::masked || stage == Stage::shifted) return value <= -1e8;
  if (stage != Stage::exp && stage != Stage::weights) return false;
  return masked <= -1e8 && value == 0;
}

/// The pooled map once more, number by number from the traced maps.
struct Direct {
  double value = 0;
  bool masked = true;
};
Direct direct(const std::vector<double>& values, const std::vector<double>& masked, Stage stage,
              Pooling pooling) {
  Direct cell;
  double count = 0, largest = -std::numeric_limits<double>::infinity();
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (hidden(stage, values[i], masked[i])) continue;
    cell.masked = false;
    cell.value += values[i], ++count;
    if (std::isnan(largest) || std::isnan(values[i]))
      largest = std::nan("");
    else
      largest = std::max(largest, values[i]);
  }
  cell.value = pooling == Pooling::mean ? cell.value / count : largest;
  return cell;
}

/// Asked for as `selection`, pooled to at most `size`; every cell compared.
void check_pool(const Layer& layer, Stage stage, const Selection& selection, Pool::Size size,
                Pooling pooling) {
  Pool pool(layer, stage, selection, size, pooling);
  compute(layer, make_plan(layer, pool.wants(), selection), pool, 1);
  const bool has_masked = contains(available_stages(layer), Stage::masked);
  std::vector<Stage> wanted{stage};
  if (has_masked && stage != Stage::masked) wanted.push_back(Stage::masked);
  const Trace whole = trace(layer, wanted, {}, 1);
  const Dims& dims = layer.dims;
  const auto at = [&](Stage which, std::size_t b, std::size_t h, std::size_t t, std::size_t j) {
    if (layer.settings.columns) // handed out as keys × queries
      return value_at(whole.value(which), ((b * dims.H + h) * dims.S_all + j) * dims.T + t);
    return value_at(whole.value(which), ((b * dims.H + h) * dims.T + t) * dims.S_all + j);
  };
  const auto queries = pool.queries(), keys = pool.keys();
  for (const PooledMap& map : pool.maps()) {
    REQUIRE(map.rows <= size.rows);
    REQUIRE(map.cols <= size.cols);
    REQUIRE(map.rows * pool.query_factor() >= queries.size());
    REQUIRE(map.cols * pool.key_factor() >= keys.size());
    for (std::size_t row = 0; row < map.rows; ++row)
      for (std::size_t col = 0; col < map.cols; ++col) {
        std::vector<double> values, masked;
        for (std::size_t r = row * pool.query_factor();
             r < std::min((row + 1) * pool.query_factor(), queries.size()); ++r)
          for (std::size_t c = col * pool.key_factor();
               c < std::min((col + 1) * pool.key_factor(), keys.size()); ++c) {
            values.push_back(at(stage, map.batch, map.head, queries[r], keys[c]));
            masked.push_back(
                has_masked ? at(Stage::masked, map.batch, map.head, queries[r], keys[c]) : 0.0);
          }
        const Direct want = direct(values, masked, stage, pooling);
        INFO(name_of(stage) << " batch " << map.batch << " head " << map.head << " cell " << row
                            << ", " << col);
        REQUIRE(map.is_masked(row, col) == want.masked);
        const double got = map.value(row, col);
        if (want.masked || std::isnan(want.value))
          REQUIRE(std::isnan(got));
        else
          REQUIRE(got == Approx(want.value).epsilon(1e-11).margin(1e-13));
      }
  }
}

bool same_bits(const std::vector<PooledMap>& a, const std::vector<PooledMap>& b) {
  if (a.size() != b.size()) return false;
  for (std::size_t i = 0; i < a.size(); ++i)
    if (a[i].values.size() != b[i].values.size() || a[i].masked != b[i].masked ||
        std::memcmp(a[i].values.data(), b[i].values.data(), a[i].values.size() * sizeof(double)) !=
            0)
      return false;
  return true;
}

} // namespace

TEST_CASE("a pooled map is the mean, or the largest, of the traced numbers below each cell") {
  const Selection selections[] = {selection_of("", ""), selection_of("1:", ":-1"),
                                  selection_of("::-1", "::2"), selection_of("0", "")};
  std::size_t checked = 0;
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    const RandomLayer drawn = random_layer(seed, random_variants(seed, 0, 4), seed % 2 == 0);
    const Layer layer = library_layer(drawn.layer, drawn.form);
    if (layer.dims.T < 2 || layer.dims.S_all < 2) continue;
    Random random(seed);
    for (const StageInfo& info : stages()) {
      if (info.kind != Kind::map || !contains(available_stages(layer), info.stage)) continue;
      const Selection& selection = selections[random.count(0, 3)];
      const Pool::Size size{random.count(1, 9), random.count(1, 9)};
      INFO(drawn.description << " seed " << seed << " at most " << size.rows << " × " << size.cols);
      check_pool(layer, info.stage, selection, size,
                 random.chance(0.5) ? Pooling::mean : Pooling::max);
      ++checked;
    }
  }
  CHECK(checked > 200);
}

TEST_CASE("pooling across blocks has the same bits whatever the threads") {
  const std::vector<Variant> lists[] = {
      {Variant::causal}, {Variant::infinite_mask}, {Variant::kv_lengths, Variant::window_left}};
  for (std::size_t i = 0; i < std::size(lists); ++i) {
    Limits limits;
    limits.tokens = 700, limits.heads = 3, limits.width = 5, limits.d_model = 7;
    // The first drawing that is longer than a block of queries.
    std::uint64_t seed = 100 * i;
    RandomLayer drawn = random_layer(seed, lists[i], i % 2 == 0, limits);
    while (drawn.layer.T() < 300) drawn = random_layer(++seed, lists[i], i % 2 == 0, limits);
    const Layer layer = library_layer(drawn.layer, drawn.form);
    INFO(drawn.description);
    // A row of cells reaches over the blocks' ends: 37 is no divisor of 256.
    const Pool::Size size{(layer.dims.T + 36) / 37, 11};
    check_pool(layer, Stage::weights, {}, size, Pooling::mean);
    const auto pooled = [&](std::size_t threads) {
      Pool pool(layer, Stage::weights, {}, size);
      compute(layer, make_plan(layer, pool.wants()), pool, threads);
      return pool.maps();
    };
    const std::vector<PooledMap> one = pooled(1);
    CHECK(same_bits(one, pooled(2)));
    CHECK(same_bits(one, pooled(5)));
  }
}

TEST_CASE("ranks pool to the bits of one") {
  const Selection selections[] = {selection_of("", ""), selection_of("::-3", "::2", "-1,0"),
                                  selection_of("", "", "0")};
  std::size_t long_ones = 0;
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    Limits limits;
    limits.tokens = seed % 4 == 0 ? 700 : 9;
    if (seed % 4 == 0) limits.heads = 4, limits.width = 5, limits.d_model = 7;
    const RandomLayer drawn =
        random_layer(seed, random_variants(seed, 0, 3), seed % 2 == 0, limits);
    const Layer layer = library_layer(drawn.layer, drawn.form);
    long_ones += layer.dims.T > 256;
    Random random(seed);
    const Selection& selection = selections[random.count(0, 2)];
    const Pool::Size size{random.count(1, 40), random.count(1, 40)};
    const Pooling pooling = random.chance(0.5) ? Pooling::mean : Pooling::max;
    const auto pooled = [&](Ranks& ranks) {
      Pool pool(layer, Stage::weights, selection, size, pooling);
      compute_together(ranks, layer, make_plan(layer, pool.wants(), selection), pool, 1);
      return pool.maps();
    };
    Ranks one;
    const std::vector<PooledMap> whole = pooled(one);
    for (std::size_t count = 2; count <= 4; ++count) {
      INFO(drawn.description << " seed " << seed << ", " << count << " ranks");
      std::vector<PooledMap> first;
      const std::string message = run_ranks(count, [&](Ranks& ranks) {
        std::vector<PooledMap> maps = pooled(ranks);
        if (ranks.is_first()) first = std::move(maps);
      });
      CHECK(message == "");
      CHECK(same_bits(first, whole));
    }
  }
  CHECK(long_ones > 2);
}

TEST_CASE("pooling keeps the chosen heads, and refuses stages that are no maps") {
  const RandomLayer drawn = random_layer(3, {}, true);
  const Layer layer = library_layer(drawn.layer, drawn.form);
  Pool pool(layer, Stage::scores, selection_of("", "", "-1"), {4, 4});
  compute(layer, make_plan(layer, pool.wants(), selection_of("", "", "-1")), pool);
  for (const PooledMap& map : pool.maps()) CHECK(map.head == layer.dims.H - 1);
  CHECK(pool.maps().size() == layer.dims.B);
  CHECK_THROWS_WITH(Pool(layer, Stage::q, {}, {4, 4}),
                    "q is not a map of queries × keys: choose scores, scaled, capped, biased, masked, "
                    "shifted, exp or weights");
}
