#include <mha/schedule/shards.hpp>

#include <mha/schedule/tiles.hpp>

#include <algorithm>
#include <map>
#include <tuple>

namespace mha {

namespace {

/// Work of one query of a block, in keys: those that its block computes, numbers of maps, and the
/// projection, of which a product of d_model numbers is as long as half as many keys take.
std::size_t work_of(const Layer& layer, const Plan& plan, std::size_t maps,
                    const QueryBlock& block) {
  const Tile rows = block_rows(layer, block);
  if (rows.count == 0) return 1;
  const std::size_t keys = contains(plan.needed, Stage::masked) ? keys_seen(layer, rows) : 0;
  return rows.count * (1 + keys + maps * layer.dims.S_all + layer.dims.d_model / 2);
}

} // namespace

Plan shard_of(const Layer& layer, Plan plan, Shard part) {
  if (part.count == 1) return plan;
  for (const Stage stage : plan.wanted)
    if (is_derived(stage))
      fail("{} is made of whole stages: of one process, without parts", name_of(stage));
  std::size_t maps = 0;
  for (const Stage stage : plan.wanted) maps += info_of(stage).kind == Kind::map;

  // What is not divided: one block, or those of a block. `work` of them, in the plan's order.
  const auto key_of = [&](const QueryBlock& block) {
    return plan.whole_rows ? QueryBlock{block.batch, 0, block.block} : block;
  };
  const auto before = [](const QueryBlock& a, const QueryBlock& b) {
    return std::tie(a.batch, a.head, a.block) < std::tie(b.batch, b.head, b.block);
  };
  std::map<QueryBlock, std::size_t, decltype(before)> work(before);
  std::size_t all = 0;
  for (const QueryBlock& block : plan.blocks) {
    const std::size_t more = work_of(layer, plan, maps, block);
    work[key_of(block)] += more;
    all += more;
  }

  // A piece belongs to the part whose share of the work has its middle.
  std::size_t done = 0;
  for (auto& [key, amount] : work) {
    const double middle = static_cast<double>(done) + static_cast<double>(amount) / 2;
    done += amount;
    amount = std::min(part.count - 1, static_cast<std::size_t>(middle / static_cast<double>(all) *
                                                               static_cast<double>(part.count)));
  }
  std::erase_if(plan.blocks,
                [&](const QueryBlock& block) { return work[key_of(block)] != part.index; });
  return plan;
}

} // namespace mha
