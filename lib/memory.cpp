#include "memory.hpp"

#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <new>

#include <sys/mman.h>

namespace mha {

namespace {

constexpr std::size_t alignment = 64; // a cache line, and the widest vector

constexpr std::size_t huge_bytes = 4 << 20; // from here on pages of 2 MiB pay

/// Large blocks that were given back, by size. Before the system is asked for a block of a new
/// size, they are returned to it: so what is used and kept together is never more than was used.
class LargeBlocks {
public:
  static LargeBlocks& get() {
    static LargeBlocks* blocks = new LargeBlocks; // never destroyed: blocks may outlive everything
    return *blocks;
  }

  /// Null if there is no memory. `fresh`: straight from the system, so zeros.
  std::byte* take(std::size_t bytes, bool& fresh) {
    const std::lock_guard hold(lock_);
    if (const auto kept = kept_.find(bytes); kept != kept_.end()) {
      std::byte* block = kept->second;
      kept_.erase(kept);
      fresh = false;
      return block;
    }
    for (const auto& [size, block] : kept_) ::munmap(block, size);
    kept_.clear();
    void* block =
        ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (block == MAP_FAILED) return nullptr;
    ::madvise(block, bytes, MADV_HUGEPAGE);
    fresh = true;
    return static_cast<std::byte*>(block);
  }

  void give_back(std::byte* block, std::size_t bytes) {
    const std::lock_guard hold(lock_);
    kept_.emplace(bytes, block);
  }

private:
  std::mutex lock_;
  std::multimap<std::size_t, std::byte*> kept_;
};

} // namespace

std::shared_ptr<std::byte> take_memory(std::size_t bytes, bool zeroed) {
  const std::size_t lines = (bytes / alignment + 1) * alignment;
  bool fresh = false;
  if (bytes >= huge_bytes) {
    std::byte* block = LargeBlocks::get().take(lines, fresh);
    if (!block) return nullptr;
    if (zeroed && !fresh) std::memset(block, 0, bytes);
    return {block, [lines](std::byte* memory) { LargeBlocks::get().give_back(memory, lines); }};
  }
  auto* block = static_cast<std::byte*>(std::aligned_alloc(alignment, lines));
  if (!block) return nullptr;
  if (zeroed) std::memset(block, 0, lines);
  return {block, [](std::byte* memory) { std::free(memory); }};
}

template <class T> T* Buffer<T>::room_for(std::size_t n) {
  if (n > size_) {
    size_ = 0;
    memory_.reset();
    memory_ = take_memory(n * sizeof(T), false);
    if (!memory_) throw std::bad_alloc();
    size_ = n;
  }
  return data();
}

template class Buffer<std::byte>;
template class Buffer<float>;
template class Buffer<double>;

} // namespace mha
