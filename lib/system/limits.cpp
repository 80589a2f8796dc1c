#include <mha/system/limits.hpp>

#include <mha/system/error.hpp>

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <string>

namespace mha {

std::size_t memory_limit() {
  const long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
  std::size_t size =
      pages > 0 && page > 0 ? static_cast<std::size_t>(pages) * static_cast<std::size_t>(page) : 0;
  const auto limit = [&](std::size_t bytes) { size = size == 0 ? bytes : std::min(size, bytes); };
  rlimit space{};
  if (getrlimit(RLIMIT_AS, &space) == 0 && space.rlim_cur != RLIM_INFINITY) limit(space.rlim_cur);
  std::ifstream container("/sys/fs/cgroup/memory.max"); // a number, or "max"
  if (std::size_t bytes = 0; container >> bytes) limit(bytes);
  return size;
}

std::size_t free_memory() {
  std::size_t free = 0;
  std::ifstream system("/proc/meminfo");
  for (std::string word; system >> word;)
    if (std::size_t kilobytes = 0; word == "MemAvailable:" && system >> kilobytes)
      free = kilobytes << 10;
  std::size_t limit = 0, used = 0;
  if (std::ifstream("/sys/fs/cgroup/memory.max") >> limit &&
      std::ifstream("/sys/fs/cgroup/memory.current") >> used)
    free = std::min(free, limit - std::min(limit, used));
  return std::min(free, memory_limit());
}

void require_memory(std::size_t bytes, const Message& what, const Message& cure) {
  // Small requests always fit, and asking the system takes time.
  if (bytes < std::size_t{16} << 20) return;
  const std::size_t limit = memory_limit();
  if (limit == 0 || bytes <= limit / 10 * 9) return;
  constexpr double gib = 1 << 30;
  fail("{} take {:.1f} GiB, there are {:.1f}; {}", what, static_cast<double>(bytes) / gib,
       static_cast<double>(limit) / gib, cure);
}

} // namespace mha
