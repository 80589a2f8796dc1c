#include "support/compare.hpp"
#include "support/emulated_amx.hpp"
#include "support/library_input.hpp"
#include "support/requests.hpp"
#include "support/sanitizers.hpp"
#include "support/with_routine.hpp"
#include <mha/kernels/routine.hpp>
#include <mha/layer/graph.hpp>
#include <mha/observe/dump.hpp>
#include <mha/observe/trace.hpp>
#include <mha/schedule/shards.hpp>
#include <mha/schedule/tiles.hpp>

#include <catch2/catch.hpp>

#include <algorithm>

using mha::Plan;
using mha::Stage;

namespace {

/// Every stage of a layer, or a random few, computed in parts into one writer, which complains
/// where an element is written twice or never; compared with the whole.
void require_parts_join(const mha::Layer& layer, const Asked& asked, std::size_t count,
                        std::size_t threads) {
  const mha::Trace whole = mha::trace(layer, asked.stages, asked.selection, 2);
  std::vector<mha::io::Item> items;
  std::vector<mha::Dump::Target> targets;
  for (Stage stage : asked.stages) {
    targets.push_back({stage, items.size(), 0, layer.dtype});
    items.push_back({std::string(name_of(stage)), layer.dtype, whole.value(stage).shape()});
  }
  MemoryWriter writer(items);
  for (std::size_t i = 0; i < count; ++i) {
    mha::Dump dump(layer, targets, asked.selection, writer);
    const Plan plan = mha::make_plan(layer, dump.wants(), asked.selection);
    mha::compute(layer, mha::shard_of(layer, plan, {i, count}), dump, threads);
  }
  writer.finish();
  for (const mha::Dump::Target& target : targets) {
    INFO(name_of(target.stage));
    CHECK(compare_bits(writer.item(target.item), whole.value(target.stage)) == "");
  }
}

void require_parts_join(std::size_t tokens, std::uint64_t draws) {
  Limits limits;
  limits.tokens = tokens;
  if (tokens > 9) limits.heads = 5, limits.width = 24, limits.d_model = 70;
  for (std::uint64_t seed = 7000 * tokens; seed < 7000 * tokens + draws; ++seed) {
    RandomLayer drawn = random_layer(seed, random_variants(seed, 0, 4), seed % 2 == 0, limits);
    const mha::Layer layer = library_layer(drawn.layer, drawn.form);
    const mha::StageSet available = mha::available_stages(layer);
    std::vector<Stage> all;
    for (const mha::StageInfo& info : mha::stages())
      if (contains(available, info.stage)) all.push_back(info.stage);
    Random random(seed);
    const Asked asked =
        random.chance(0.3) ? Asked{all, {}, "all"} : random_request(random, layer, all);
    const std::size_t count = random.count(1, 9);
    INFO(drawn.description << " seed " << seed << ": " << asked.description << " in " << count);
    require_parts_join(layer, asked, count, random.count(1, 3));
  }
}

mha::Layer causal_layer(std::size_t tokens, std::size_t heads) {
  mha::NamedTensors parts;
  for (const char* name : {"q", "k", "v"})
    parts[name] = {mha::Tensor(mha::DType::f32, {heads, tokens, 2}), "test"};
  mha::Settings settings;
  mha::set(settings, "causal", "true", "test");
  return mha::make_layer(parts, settings);
}

} // namespace

TEST_CASE("parts write every element once, with the bits of the whole") {
  require_parts_join(9, sanitized ? 20 : 150);
  require_parts_join(320, sanitized ? 2 : 20);
  require_parts_join(700, sanitized ? 1 : 12);
}

TEST_CASE("parts have the bits of the whole where numbers are split") {
  const WithBf16x3 bf16x3;
  const WithRoutine path(mha::Routine::bf16x3);
  require_parts_join(60, sanitized ? 4 : 40);
  require_parts_join(700, sanitized ? 1 : 6);
}

TEST_CASE("a part is a run of blocks, and every block is in one") {
  const mha::Layer layer = causal_layer(1100, 3); // 5 blocks
  mha::StageSet wanted;
  wanted.add(Stage::weights);
  const Plan whole = mha::make_plan(layer, wanted);
  REQUIRE(whole.blocks.size() == 15);
  for (const std::size_t count : {1u, 2u, 3u, 7u, 15u, 16u, 40u}) {
    std::vector<std::size_t> together;
    for (std::size_t i = 0; i < count; ++i)
      for (const mha::QueryBlock& block : mha::shard_of(layer, whole, {i, count}).blocks)
        together.push_back(block.head * 5 + block.block);
    INFO(count);
    CHECK(together.size() == 15);
    CHECK(std::is_sorted(together.begin(), together.end()));
  }
}

TEST_CASE("parts are balanced by the keys that are seen") {
  const mha::Layer layer = causal_layer(256 * 40, 1);
  mha::StageSet wanted;
  wanted.add(Stage::head_out);
  const Plan whole = mha::make_plan(layer, wanted);
  // Half of the triangle under the diagonal ends at 1/√2 of its height.
  const std::size_t first = mha::shard_of(layer, whole, {0, 2}).blocks.size();
  CHECK(first >= 27);
  CHECK(first <= 29);
}

TEST_CASE("a block of queries stays together where rows of every head are wanted") {
  const mha::Layer layer = causal_layer(700, 4);
  mha::StageSet wanted;
  wanted.add(Stage::concat);
  const Plan whole = mha::make_plan(layer, wanted);
  for (std::size_t i = 0; i < 3; ++i) {
    const Plan part = mha::shard_of(layer, whole, {i, 3});
    CHECK(part.blocks.size() % 4 == 0);
    CHECK(mha::query_rows(layer, part).size() * 4 == part.blocks.size());
  }
}
