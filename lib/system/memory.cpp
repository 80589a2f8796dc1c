#include <mha/system/memory.hpp>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <new>

#if defined(__x86_64__)
#include <emmintrin.h>
#endif
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#if defined(MHA_SANITIZE)
// AddressSanitizer's defaults for every program of this build; ASAN_OPTIONS in the environment has
// precedence. It records three callers of each allocation instead of thirty and keeps 16 MiB of
// freed memory poisoned instead of 256 MiB, which saves 13 to 20 % of processor time.
extern "C" const char* __asan_default_options() {
  return "malloc_context_size=3:quarantine_size_mb=16";
}
#endif

namespace mha {

namespace {

constexpr std::size_t alignment = 64; // a cache line, and the widest vector

constexpr std::size_t huge_page = 2 << 20;

// Blocks of at least this size are cut from huge pages. AddressSanitizer and fuzzing watch malloc,
// so with them every block comes from there.
#if defined(MHA_SANITIZE)
constexpr bool sanitized = true;
constexpr std::size_t huge_bytes = SIZE_MAX;
#else
constexpr bool sanitized = false;
constexpr std::size_t huge_bytes = 256 << 10;
#endif

/// `bytes` bytes (whole small pages) from the system, at the start of a huge page; null if there is
/// no memory. In small pages if `sparse`.
std::byte* map_pages(std::size_t bytes, bool sparse = false) {
  // One huge page is mapped in excess for the alignment, and the parts outside are returned at
  // once.
  void* const mapped = ::mmap(nullptr, bytes + huge_page, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) return nullptr;
  auto* const start = static_cast<std::byte*>(mapped);
  const std::size_t before =
      (huge_page - reinterpret_cast<std::uintptr_t>(start) % huge_page) % huge_page;
  if (before > 0) ::munmap(start, before);
  if (before < huge_page) ::munmap(start + before + bytes, huge_page - before);
  ::madvise(start + before, bytes, sparse ? MADV_NOHUGEPAGE : MADV_HUGEPAGE);
  return start + before;
}

/// Zeros come from the system and return to it, because reusing a block would mean clearing it.
std::shared_ptr<std::byte> take_zeros(std::size_t bytes, bool sparse) {
  static const auto small_page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  bytes = (bytes + small_page - 1) / small_page * small_page;
  std::byte* const block = map_pages(bytes, sparse);
  if (!block) return nullptr;
  return {block, [bytes](std::byte* memory) { ::munmap(memory, bytes); }};
}

/// Blocks in huge pages. A freed block is merged with its free neighbours and cut again for later
/// requests. Before more is mapped, regions without any block are returned to the system, so that
/// used and kept memory together are hardly more than the peak of use.
class HugePages {
public:
  static HugePages& get() {
    static HugePages* pages = [] { // never destroyed: blocks may outlive everything
      // A child of fork() gets the lock free, whichever thread had it.
      pthread_atfork([] { get().lock_.lock(); }, [] { get().lock_.unlock(); },
                     [] { get().lock_.unlock(); });
      return new HugePages;
    }();
    return *pages;
  }

  /// Null if there is no memory. `fresh`: straight from the system, and so all zeros.
  std::byte* take(std::size_t bytes, bool& fresh) {
    const std::lock_guard hold(lock_);
    auto best = free_.end();
    for (auto range = free_.begin(); range != free_.end(); ++range)
      if (range->second >= bytes && (best == free_.end() || range->second < best->second))
        best = range;
    fresh = best == free_.end();
    if (fresh) {
      return_unused();
      const std::size_t region = (bytes + huge_page - 1) / huge_page * huge_page;
      std::byte* const start = map_pages(region);
      if (!start) return nullptr;
      regions_.emplace(start, region);
      best = free_.emplace(start, region).first;
    }
    const auto [block, size] = *best;
    free_.erase(best);
    if (size > bytes) free_.emplace(block + bytes, size - bytes);
    return block;
  }

  void give_back(std::byte* block, std::size_t bytes) {
    const std::lock_guard hold(lock_);
    auto after = free_.lower_bound(block);
    if (after != free_.end() && after->first == block + bytes && !regions_.contains(after->first)) {
      bytes += after->second;
      after = free_.erase(after);
    }
    if (after != free_.begin() && !regions_.contains(block)) {
      const auto before = std::prev(after);
      if (before->first + before->second == block) {
        before->second += bytes;
        bytes = 0;
      }
    }
    if (bytes > 0) free_.emplace(block, bytes);
    if (!keeps_) return_unused();
  }

  void keep(bool keeps) {
    const std::lock_guard hold(lock_);
    keeps_ = keeps;
    if (!keeps) return_unused();
  }

private:
  using Ranges = std::map<std::byte*, std::size_t>;

  void return_unused() {
    for (auto region = regions_.begin(); region != regions_.end();) {
      const auto unused = free_.find(region->first);
      if (unused == free_.end() || unused->second != region->second) {
        ++region;
        continue;
      }
      ::munmap(region->first, region->second);
      free_.erase(unused);
      region = regions_.erase(region);
    }
  }

  std::mutex lock_;
  bool keeps_ = true;
  Ranges free_;    ///< start and size of the free ranges, merged within a region
  Ranges regions_; ///< start and size of the mapped regions
};

} // namespace

std::shared_ptr<std::byte> take_memory(std::size_t bytes, Fill fill) {
  const bool zeroed = fill != Fill::anything;
  const std::size_t lines = (bytes / alignment + 1) * alignment;
  if (zeroed && bytes >= std::max(huge_bytes, huge_page))
    return take_zeros(lines, fill == Fill::sparse_zeros);
  if (bytes >= huge_bytes) {
    bool fresh = false;
    std::byte* block = HugePages::get().take(lines, fresh);
    if (!block) return nullptr;
    if (zeroed && !fresh) std::memset(block, 0, bytes);
    return {block, [lines](std::byte* memory) { HugePages::get().give_back(memory, lines); }};
  }
  void *block = nullptr, *memory = nullptr;
  if constexpr (sanitized) { // AddressSanitizer watches the end of the block itself
    block = memory = std::aligned_alloc(alignment, lines);
  } else { // glibc before 2.38 leaves holes around aligned_alloc's blocks (its bug 14581)
    std::size_t room = lines + alignment;
    block = memory = std::malloc(room);
    if (block) std::align(alignment, lines, memory, room);
  }
  if (!block) return nullptr;
  if (zeroed) std::memset(memory, 0, lines);
  return {static_cast<std::byte*>(memory), [block](std::byte*) { std::free(block); }};
}

void keep_unused_memory(bool keep) {
  HugePages::get().keep(keep);
}

template <class T> T* Buffer<T>::room_for(std::size_t n) {
  if (n > size_) {
    size_ = 0;
    memory_.reset();
    memory_ = take_memory(n * sizeof(T), Fill::anything);
    if (!memory_) throw std::bad_alloc();
    size_ = n;
  }
  return data();
}

template class Buffer<std::byte>;
template class Buffer<float>;
template class Buffer<double>;
template class Buffer<std::uint16_t>;
template class Buffer<std::uint8_t>;

void copy_past_cache(std::byte* to, const std::byte* from, std::size_t bytes) {
#if defined(__x86_64__)
  constexpr std::size_t line = 64, least = std::size_t{16} * 1024;
  if (bytes >= least) {
    const std::size_t head = (line - reinterpret_cast<std::uintptr_t>(to) % line) % line;
    std::memcpy(to, from, head);
    to += head, from += head, bytes -= head;
    for (; bytes >= line; to += line, from += line, bytes -= line)
      for (std::size_t i = 0; i < line; i += 16)
        _mm_stream_si128(reinterpret_cast<__m128i*>(to + i),
                         _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + i)));
    _mm_sfence(); // streaming stores are not ordered
  }
#endif
  std::memcpy(to, from, bytes);
}

} // namespace mha
