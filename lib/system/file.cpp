#include <mha/system/file.hpp>

#include <mha/system/error.hpp>

#include <algorithm>
#include <cerrno>
#include <functional>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <system_error>

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/uio.h>
#include <unistd.h>

namespace mha {

File::~File() {
  if (fd_ >= 0) ::close(fd_);
}

std::string reason(int code) {
  return std::error_code(code, std::generic_category()).message();
}

namespace {

SignalList<Mapping::Range>& mapped_ranges() {
  static auto* all =
      new SignalList<Mapping::Range>; // a handler may run after statics are destroyed
  return *all;
}

/// A range is not destroyed while a thread that reads another file looks at it.
std::shared_mutex& ranges_lock() {
  static auto* lock = new std::shared_mutex;
  return *lock;
}

/// The mapped file that an address is of; nullptr if none is.
const Mapping::Range* range_at(const std::byte* at) noexcept {
  const Mapping::Range* found = nullptr;
  mapped_ranges().for_each([&](SignalList<Mapping::Range>::Place& place) {
    const Mapping::Range* range = place.thing.load();
    if (range && !std::less<>()(at, range->start) && at < range->start + range->size) found = range;
  });
  return found;
}

/// Descriptors are few, and a folder may hold thousands of files: half of them are left to others.
int most_open() {
  struct rlimit limit {};
  const bool known = ::getrlimit(RLIMIT_NOFILE, &limit) == 0;
  return static_cast<int>(std::min<rlim_t>(256, known ? limit.rlim_cur / 2 : 0));
}

File kept_open(File file) {
  if (file.fd() >= most_open()) return {};
  ::posix_fadvise(file.fd(), 0, 0, POSIX_FADV_RANDOM); // will_read_mapped knows better
  return file;
}

/// Whether the system has the bytes in its memory already, by a sample of them: to be asked for
/// what is there, it looks at each page, which takes a third of the time that reading it takes.
bool in_memory(const Mapping::Range& range, const std::byte* from, std::size_t size) {
  constexpr std::size_t apart = std::size_t{256} << 10;
  std::byte sample{};
  const iovec to{&sample, 1};
  const auto is_there = [&](const std::byte* at) {
    return ::preadv2(range.file.fd(), &to, 1, at - range.start, RWF_NOWAIT) == 1;
  };
  for (std::size_t at = 0; at < size; at += apart)
    if (!is_there(from + at)) return false;
  return size == 0 || is_there(from + size - 1);
}

/// The range of an address that the caller keeps mapped.
const Mapping::Range& range_of(const std::byte* from) {
  const std::shared_lock hold(ranges_lock());
  return *range_at(from);
}

} // namespace

Mapping::Mapping(const std::byte* start, std::size_t size, File file, const std::string& name)
    : place_(mapped_ranges().add(
          std::make_unique<Range>(Range{start, size, kept_open(std::move(file)),
                                        fmt::format("{}: became shorter while it was read", name)})
              .release())) {}

Mapping::~Mapping() {
  const std::lock_guard alone(ranges_lock());
  const std::unique_ptr<Range> range(SignalList<Range>::take(place_));
}

bool is_mapped(const std::byte* from) {
  const std::shared_lock hold(ranges_lock());
  const Mapping::Range* const range = range_at(from);
  return range && range->file.fd() >= 0;
}

void read_mapped(const std::byte* from, std::size_t size, std::byte* to) {
  const Mapping::Range& range = range_of(from);
  while (size > 0) {
    const ssize_t got = ::pread(range.file.fd(), to, size, from - range.start);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail("a mapped file cannot be read: {}", reason(errno));
    if (got == 0) fail("{}", range.message);
    from += got, to += got, size -= static_cast<std::size_t>(got);
  }
}

void will_read_mapped(const std::byte* from, std::size_t size) {
  const Mapping::Range& range = range_of(from);
  if (in_memory(range, from, size)) return;
  ::posix_fadvise(range.file.fd(), from - range.start, static_cast<off_t>(size),
                  POSIX_FADV_WILLNEED);
}

const char* shortened_file_at(const void* address) noexcept {
  const Mapping::Range* const range = range_at(static_cast<const std::byte*>(address));
  return range ? range->message.c_str() : nullptr;
}

} // namespace mha
