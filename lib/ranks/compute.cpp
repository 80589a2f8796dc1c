#include "ranks/compute.hpp"

namespace mha {

PartTimes compute_together(Ranks& ranks, const Layer& layer, const Plan& plan, Shareable& observer,
                           std::size_t threads) {
  const Plan mine = part_of(layer, plan, ranks.part());
  const PartTimes seconds = compute(layer, mine, observer, threads);
  if (ranks.count() == 1) return seconds;
  ranks.to_first(ranks.is_first() ? "" : observer.packed(layer, mine),
                 [&](std::size_t rank, std::string_view bytes) {
                   observer.unpack(layer, part_of(layer, plan, {rank, ranks.count()}), bytes);
                 });
  return seconds;
}

} // namespace mha
