#pragma once
// The sizes of a layer, learned from its tensors: each says some, and all must agree.

#include <mha/load/assemble.hpp>
#include <mha/system/note.hpp>

namespace mha {

/// The part by which each given stage is given: its own name, or Q, K, V for the packed q, k, v.
using GivenNames = std::map<Stage, std::string>;

/// Whether a given stage comes packed, heads side by side: as Q, K or V.
bool is_packed(const std::string& name);

struct HeadCounts {
  std::size_t H = 0, H_kv = 0; ///< 0 = nothing says
};
/// The numbers of heads that settings, weights per head and given stages name. Throws Error where
/// two of them differ, or where nothing says how many heads there are; Q, K and V by themselves are
/// one, with a note.
HeadCounts find_heads(const NamedTensors& parts, const GivenNames& given, const Settings& settings,
                      std::vector<Note>& notes);

/// Every size. Throws Error that names the tensor, its shape, the expected one, and what that
/// follows from.
Dims find_sizes(const NamedTensors& parts, const GivenNames& given, const Settings& settings,
                HeadCounts heads, std::vector<Note>& notes);

} // namespace mha
