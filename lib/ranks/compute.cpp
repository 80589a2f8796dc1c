#include <mha/ranks/compute.hpp>

#include <mha/layer/fingerprint.hpp>

#include <algorithm>

namespace mha {

PhaseTimes compute_together(Ranks& ranks, const Layer& layer, const Plan& plan, Mergeable& observer,
                            std::size_t threads, const ComputeLayer& by) {
  // What is made of whole stages has no parts: each rank computes it, and the first uses it.
  if (std::ranges::any_of(plan.wanted, is_derived)) return by(layer, plan, observer, threads);
  const PhaseTimes seconds = by(layer, shard_of(layer, plan, ranks.part()), observer, threads);
  gather(ranks, layer, plan, observer);
  return seconds;
}

void gather(Ranks& ranks, const Layer& layer, const Plan& plan, Mergeable& observer) {
  if (ranks.count() == 1) return;
  const auto part = [&](std::size_t rank) { return shard_of(layer, plan, {rank, ranks.count()}); };
  require_same_input(ranks, Fingerprint().add(layer).text());
  ranks.to_first(ranks.is_first() ? "" : observer.part_bytes(layer, part(ranks.rank())),
                 [&](std::size_t rank, std::string_view bytes) {
                   observer.merge_part(layer, part(rank), bytes);
                 });
}

void require_same_input(Ranks& ranks, const std::string& fingerprint) {
  if (ranks.count() == 1) return;
  const std::vector<std::string> all = ranks.all(fingerprint);
  for (std::size_t i = 1; i < all.size(); ++i)
    if (all[i] != all[0])
      fail("rank {} of {} reads another layer, or was given other options, than rank 0: all ranks "
           "must see the same files",
           i, all.size());
}

} // namespace mha
