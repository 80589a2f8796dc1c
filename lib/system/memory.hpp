#pragma once
// Memory for many numbers, aligned to cache lines; large blocks are in huge pages and reused.

#include <cstddef>
#include <cstdint>
#include <memory>

namespace mha {

/// The content of new memory.
enum class Fill : std::uint8_t {
  anything,
  zeros,
  sparse_zeros, ///< in small pages, which take memory only once they are written
};

/// A block of `bytes` bytes; null if there is no memory. From 256 KiB on, except for sparse zeros,
/// a block is in huge pages where the system has them, because small pages scattered in physical
/// memory compete for some sets of the second-level cache and leave others unused. A block that was
/// not zeroed is kept for later requests when it is freed: having the system clear the pages again
/// takes longer than computing their content. Large zeroed blocks, which files are read into,
/// return to the system.
std::shared_ptr<std::byte> take_memory(std::size_t bytes, Fill fill);

/// Whether freed blocks are kept for later requests, which is the default. If not, unused memory
/// returns to the system now and whenever a block is freed.
void keep_unused_memory(bool keep);

/// memcpy, for what is not read again soon. Many bytes bypass the caches: there they would evict
/// what is being worked on, and be read from memory only to be overwritten.
void copy_past_cache(std::byte* to, const std::byte* from, std::size_t bytes);

/// Scratch memory that a thread reuses. Growing loses the content.
template <class T> class Buffer {
public:
  /// Memory for n numbers of any value. Throws std::bad_alloc.
  T* room_for(std::size_t n);
  T* data() const { return reinterpret_cast<T*>(memory_.get()); }

private:
  std::shared_ptr<std::byte> memory_;
  std::size_t size_ = 0;
};

} // namespace mha
