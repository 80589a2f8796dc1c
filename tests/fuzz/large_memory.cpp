// Large blocks of memory come straight from the system (lib/memory.cpp), where neither libFuzzer's
// -malloc_limit_mb nor AddressSanitizer sees them. Every fuzz target is linked with --wrap=mmap, so
// that such a request ends the run as well.

#include <cstddef>
#include <cstdio>
#include <cstdlib>

#include <sys/mman.h>

namespace {

constexpr std::size_t most = std::size_t{64} << 20; // -malloc_limit_mb of tests/fuzz.sh

} // namespace

// The linker gives these two their names.
extern "C" void* __real_mmap(void* at, std::size_t size, int protection, int flags, int file,
                             off_t offset);

extern "C" void* __wrap_mmap(void* at, std::size_t size, int protection, int flags, int file,
                             off_t offset) {
  if ((flags & MAP_ANONYMOUS) != 0 && size >= most) {
    std::fprintf(stderr, "ERROR: one request for %zu MiB of memory\n", size >> 20);
    std::abort();
  }
  return __real_mmap(at, size, protection, flags, file, offset);
}
