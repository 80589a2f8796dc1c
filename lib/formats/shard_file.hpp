#pragma once
// Parts of a dump in files of their own, and joining them.
//
// A part is an .npz or .safetensors file. For every tensor NAME of the whole dump it has NAME, the
// part's elements in one row; NAME.runs, int64 (n, 2), the offsets and counts of these elements in
// the whole tensor; and NAME.shape, int64, the whole shape. `part` is "2/7", `part_run` identifies
// the run, and the list `part_items` has the names in order.

#include <mha/files/contents.hpp>
#include <mha/files/writer.hpp>

#include <utility>

namespace mha::io {

struct ShardInfo {
  std::string run;       ///< identifies the run that the part belongs to
  std::size_t index = 0; ///< from 0
  std::size_t count = 1;
};

/// Ranges of elements in a whole tensor: (offset, count), in order and not adjacent.
using ElementRanges = std::vector<std::pair<std::size_t, std::size_t>>;

/// A writer for the elements of `whole` in `runs` (one entry per item), which are passed with their
/// offsets in the whole. `path` and `format` as for create(). Throws Error for a format that cannot
/// hold a part.
std::unique_ptr<Writer> create_shard(const std::string& path, std::string_view format,
                                     const Output& whole, std::vector<ElementRanges> runs,
                                     const ShardInfo& info);

/// Whether a file is a part of a dump.
bool is_shard(const Contents& contents);
/// "part 2/7 of a dump".
std::string shard_title(const Contents& contents);

/// Joins all parts of one run into one file, piece by piece. Throws Error if a file is not a part,
/// belongs to another run or appears twice, or if parts are missing.
void join_shards(const std::vector<Contents>& parts, const std::string& path,
                 std::string_view format);

} // namespace mha::io
