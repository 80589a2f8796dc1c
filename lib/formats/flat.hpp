#pragma once
// Files of a header followed by the elements. All offsets are known before the first byte is
// written, so several processes can write one file.

#include <mha/files/writer.hpp>

#include <cstdint>

namespace mha::io {

/// The offsets of a file's parts.
struct Layout {
  std::string header;                 ///< from the start of the file
  std::vector<std::uint64_t> offsets; ///< of each item's elements, from the start of the file
  std::uint64_t size = 0;             ///< of the whole file
};

/// A writer of such a file. It writes a temporary file beside `path`, which finish() renames.
std::unique_ptr<Writer> create_flat(const std::string& path, const Output& output, Layout layout);

/// The layout in the format that create() would choose; throws Error for a format that only one
/// process can write.
Layout layout_for(const std::string& path, std::string_view format, const Output& output);

} // namespace mha::io
