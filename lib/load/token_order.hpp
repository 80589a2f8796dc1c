#pragma once
// Queries, keys, values and head outputs whose files do not name their axes: heads first, as in the
// table of stages, or tokens first, as flash kernels have them.

#include <mha/load/assemble.hpp>

namespace mha {

/// Brings such tensors into the order of the table of stages, with a note where that is a guess.
/// Returns the bindings that read them in the other order where that is possible as well:
/// "q=good.pt:q@BTHD".
///
/// The sizes of heads and tokens that either order gives are compared with each other, with the
/// number of heads that is set, and with every tensor that has an axis of heads or tokens (lse,
/// masks, weights …). Where both orders fit and heads share key/value heads, the order with as many
/// keys as queries wins; else it is heads first. An output of head width, (B, T, H, d) or
/// (B, H, T, d), is taken as head_out.
std::vector<std::string> order_heads_and_tokens(NamedTensors& parts, const Settings& settings,
                                                std::vector<Note>& notes);

} // namespace mha
