#pragma once
// A part of a plan is a plan: for runs that are divided between processes or machines.

#include <mha/schedule/plan.hpp>

namespace mha {

/// The index-th (from 0) of `count` parts.
struct Shard {
  std::size_t index = 0, count = 1;
};

/// A run of the plan's blocks, about as much work as every other part has: keys that causal,
/// windows or kv_lengths hide count nothing, numbers of maps that are shown as much as keys. A
/// block of queries stays together where rows of every head are wanted. A part may have no block.
Plan shard_of(const Layer& layer, Plan plan, Shard part);

} // namespace mha
