#pragma once
// Files that are a header and elements: where everything lies is known before the first byte, so
// that several processes can write one.

#include <mha/files/writer.hpp>

#include <cstdint>

namespace mha::io {

/// Where the bytes of a file lie.
struct Layout {
  std::string header;                 ///< from the start of the file
  std::vector<std::uint64_t> offsets; ///< of each item's elements, from the start of the file
  std::uint64_t size = 0;             ///< of the whole file
};

/// A writer of such a file. It writes a temporary file beside `path`, which finish() renames.
std::unique_ptr<Writer> create_flat(const std::string& path, const Output& output, Layout layout);

/// The layout of the format that create() would choose; throws Error for one that is written by one
/// process alone.
Layout layout_for(const std::string& path, std::string_view format, const Output& output);

} // namespace mha::io
