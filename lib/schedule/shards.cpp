#include <mha/schedule/shards.hpp>

#include <mha/schedule/visible.hpp>

#include <algorithm>
#include <map>
#include <tuple>

namespace mha {

namespace {

/// Work of one query of a unit, in keys: those that its block computes, numbers of maps, and the
/// projection, of which a product of d_model numbers is as long as half as many keys take.
std::size_t work_of(const Layer& layer, const Plan& plan, std::size_t maps, const Unit& unit) {
  const std::size_t first = std::min(unit.block * block_queries, layer.dims.T);
  const std::size_t queries = std::min(block_queries, layer.dims.T - first);
  if (queries == 0) return 1;
  std::size_t keys = 0;
  if (contains(plan.needed, Stage::masked)) {
    const Visible seen = visible_tiles(layer, unit.batch, first, queries, key_tile);
    keys = seen.last - seen.first;
  }
  return queries * (1 + keys + maps * layer.dims.S_all + layer.dims.d_model / 2);
}

} // namespace

Plan part_of(const Layer& layer, Plan plan, PlanPart part) {
  if (part.count == 1) return plan;
  std::size_t maps = 0;
  for (const StageInfo& info : stages())
    maps += info.kind == Kind::map && contains(plan.wanted, info.stage);

  // What is not divided: one unit, or those of a block. `work` of them, in the plan's order.
  const auto key_of = [&](const Unit& unit) {
    return plan.whole_rows ? Unit{unit.batch, 0, unit.block} : unit;
  };
  const auto before = [](const Unit& a, const Unit& b) {
    return std::tie(a.batch, a.head, a.block) < std::tie(b.batch, b.head, b.block);
  };
  std::map<Unit, std::size_t, decltype(before)> work(before);
  std::size_t all = 0;
  for (const Unit& unit : plan.units) {
    const std::size_t more = work_of(layer, plan, maps, unit);
    work[key_of(unit)] += more;
    all += more;
  }

  // A piece belongs to the part in whose share of the work its middle lies.
  std::size_t done = 0;
  for (auto& [key, amount] : work) {
    const double middle = static_cast<double>(done) + static_cast<double>(amount) / 2;
    done += amount;
    amount = std::min(part.count - 1, static_cast<std::size_t>(middle / static_cast<double>(all) *
                                                               static_cast<double>(part.count)));
  }
  std::erase_if(plan.units, [&](const Unit& unit) { return work[key_of(unit)] != part.index; });
  return plan;
}

} // namespace mha
