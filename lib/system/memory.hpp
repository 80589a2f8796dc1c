#pragma once
// Memory for many numbers: at the start of a cache line, blocks in huge pages and used again.

#include <cstddef>
#include <cstdint>
#include <memory>

namespace mha {

/// What new memory holds.
enum class Fill : std::uint8_t {
  anything,
  zeros,
  sparse_zeros, ///< in small pages, of which those that are written take memory
};

/// `bytes` bytes; null if there are no more. From 256 KiB on they lie in huge pages where the system
/// has them, but for sparse zeros: blocks scattered over small pages crowd some places of the second
/// cache and leave others empty. Blocks that were not zeroed serve the next requests when they are
/// given back: to have the same pages cleared again takes longer than to compute what goes there.
/// Large zeroed ones, which files are read into, return to the system.
std::shared_ptr<std::byte> take_memory(std::size_t bytes, Fill fill);

/// Whether blocks that are given back are kept for the next requests, as they are at first. If not,
/// what is unused returns to the system, now and whenever a block is given back.
void keep_unused_memory(bool keep);

/// Room for numbers that a thread uses again and again. Growing loses what was there.
template <class T> class Buffer {
public:
  /// Room for n numbers, with any values. Throws std::bad_alloc.
  T* room_for(std::size_t n);
  T* data() const { return reinterpret_cast<T*>(memory_.get()); }

private:
  std::shared_ptr<std::byte> memory_;
  std::size_t size_ = 0;
};

} // namespace mha
