#pragma once
// ZIP archives as NumPy, Python and others write them: stored or deflated members, ZIP64.

#include <mha/files/contents.hpp>

namespace mha::io {

/// One member, its sizes and place checked against the archive.
struct ZipMember {
  std::string name;
  std::string where; ///< "weights.npz: W_q.npy", for messages
  bool deflated = false;
  std::uint32_t crc = 0;
  std::uint64_t packed = 0; ///< bytes in the archive
  std::uint64_t size = 0;   ///< bytes of the member
  std::uint64_t offset = 0; ///< where its bytes start
};

/// All members; the directory, every local header, sizes and overlaps are checked.
std::vector<ZipMember> zip_members(const Bytes& archive);
/// The comment at the archive's end, up to 64 KiB.
std::string zip_comment(const Bytes& archive);
/// The first `count` bytes of a member (fewer if it is shorter).
std::string zip_start(const Bytes& archive, const ZipMember& member, std::size_t count);
/// The bytes of a member after its first `skip`, with the checksum verified; a stored member is
/// copied only if it is not aligned.
std::shared_ptr<const std::byte> zip_read(const Bytes& archive, const ZipMember& member,
                                          std::size_t skip, std::size_t alignment);

} // namespace mha::io
