#pragma once
// Queries, keys, values and head outputs whose files do not say their axes: heads first, as the
// table of stages has them, or tokens first, as flash kernels have them.

#include <mha/load/assemble.hpp>

namespace mha {

/// Brings such tensors into the order of the table of stages, and says in `notes` how they are read
/// where that is not plain. Hands back the bindings that read them in the other order, where
/// nothing excludes it: "q=good.pt:q@BTHD".
///
/// The sizes of heads and tokens that either order gives are compared with each other, with the
/// number of heads that is set, and with every tensor that has an axis of heads or tokens (lse,
/// masks, weights …). Where both fit, keys that are as many as the queries tell heads that share
/// key/value heads from tokens; else it is heads first. An output of head width, (B, T, H, d) or
/// (B, H, T, d), is what the heads give.
std::vector<std::string> order_heads_and_tokens(NamedTensors& parts, const Settings& settings,
                                                std::vector<Note>& notes);

} // namespace mha
