#pragma once
// A part of a dump as a file of its own, and how such files become one again.
//
// A part is an .npz or .safetensors file. For every tensor NAME of the whole it has NAME, the
// part's elements in one row; NAME.runs, int64 (n, 2): where these lie in the whole, as offsets and
// counts of elements; NAME.shape, int64: the whole's shape. `part` is "2/7", `part_run` says which
// run it belongs to, and the list `part_items` has the names in their order.

#include <mha/files/contents.hpp>
#include <mha/files/writer.hpp>

#include <utility>

namespace mha::io {

struct ShardInfo {
  std::string run;       ///< the same for the parts of one run, and for no other
  std::size_t index = 0; ///< from 0
  std::size_t count = 1;
};

/// Elements of a whole: (offset, count), in order, none touching the next.
using ElementRanges = std::vector<std::pair<std::size_t, std::size_t>>;

/// A writer that takes the elements of `whole` that lie in `runs` (one entry an item), at their
/// offsets in the whole. `path` and `format` as for create(). Throws Error for a format that cannot
/// hold a part.
std::unique_ptr<Writer> create_shard(const std::string& path, std::string_view format,
                                     const Output& whole, std::vector<ElementRanges> runs,
                                     const ShardInfo& info);

/// Whether a file is a part of a dump.
bool is_shard(const Contents& contents);
/// "part 2/7 of a dump".
std::string shard_title(const Contents& contents);

/// Writes what all the parts of one run hold as one file, piece by piece. Throws Error where a file
/// is no part, is of another run, is there twice, or where parts are missing.
void join_shards(const std::vector<Contents>& parts, const std::string& path,
                 std::string_view format);

} // namespace mha::io
