// Reads small files and pipes into memory and maps large files. If another program truncates a
// mapped file, reading its bytes raises SIGBUS (file.hpp).

#include <mha/files/bytes.hpp>

#include <mha/files/inputs.hpp>
#include <mha/files/text.hpp>
#include <mha/system/file.hpp>
#include <mha/system/limits.hpp>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <map>
#include <mutex>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

namespace mha::io {

namespace {

constexpr std::string_view standard_input = "standard input";
/// Files of this size and above are mapped, so that only the bytes that are used are read.
constexpr std::size_t mapped_from = std::size_t{256} << 10;

/// "; did you mean 'layer.npz'?", chosen from the other names in the folder of `path`.
std::string neighbour(const std::string& path) {
  const std::filesystem::path wanted(path);
  const std::filesystem::path folder = wanted.has_parent_path() ? wanted.parent_path() : ".";
  std::vector<std::string> names;
  std::error_code ignored;
  for (std::filesystem::directory_iterator at(folder, ignored), end;
       !ignored && at != end && names.size() < 10'000; at.increment(ignored))
    names.push_back(at->path().filename().string());
  std::ranges::sort(names);
  const std::vector<std::string_view> candidates(names.begin(), names.end());
  const std::string best = closest(wanted.filename().string(), candidates);
  if (best.empty()) return "";
  return fmt::format("; did you mean '{}'?", shown((wanted.parent_path() / best).string()));
}

/// ENOTDIR means that a part of the path which should be a folder is a file.
[[noreturn]] void fail_to_open(const std::string& path, int code) {
  if (code == ENOENT || code == ENOTDIR) fail("{}: no such file{}", shown(path), neighbour(path));
  if (code == EACCES) fail("{}: no permission to read it", shown(path));
  fail("{}: cannot open: {}", shown(path), reason(code));
}

[[noreturn]] void fail_as_endless(const std::string& name, std::size_t most,
                                  const StreamLimit& limit) {
  const bool large = most >= 1 << 20;
  fail("{}: is longer than {} {}, the most that is read from a pipe for {}; save it to a file",
       shown(name), large ? most >> 20 : most, large ? "MiB" : "bytes", limit.what);
}

/// Reads a stream to its end. Its length is not known, so the buffer doubles when it is full.
Bytes read_stream(const File& file, std::string name, const StreamLimit& limit) {
  constexpr std::size_t beginning = 4096; // enough bytes to recognise the format
  const std::size_t half = memory_limit() / 2;
  const std::size_t most = limit.bytes > 0 ? limit.bytes : half > 0 ? half : std::size_t{8} << 30;
  bool seen = false;
  std::size_t capacity = std::size_t{1} << 16, size = 0;
  std::shared_ptr<std::byte> data = memory(capacity);
  while (true) {
    if (size == capacity) {
      const std::shared_ptr<std::byte> larger = memory(capacity * 2);
      std::memcpy(larger.get(), data.get(), size);
      data = larger;
      capacity *= 2;
    }
    const ssize_t got = ::read(file.fd(), data.get() + size, capacity - size);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail("{}: cannot read: {}", shown(name), reason(errno));
    if (got == 0) return {std::move(name), data, size};
    size += static_cast<std::size_t>(got);
    if (size > most) fail_as_endless(name, most, limit);
    if (seen || size < beginning) continue;
    seen = true;
    if (limit.possible && !limit.possible({data.get(), size})) return {std::move(name), data, size};
  }
}

/// Copies a small file into memory, so that later changes by other programs do not matter.
Bytes read_small(const File& file, std::string name, std::size_t size) {
  const std::shared_ptr<std::byte> data = memory(size);
  for (std::size_t at = 0; at < size;) {
    const ssize_t got = ::read(file.fd(), data.get() + at, size - at);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail("{}: cannot read: {}", shown(name), reason(errno));
    if (got == 0) fail("{}: became shorter while it was read", shown(name));
    at += static_cast<std::size_t>(got);
  }
  return {std::move(name), data, size};
}

Bytes map(File file, std::string name, std::size_t size, const StreamLimit& limit) {
  if (size == 0) return {std::move(name), memory(0), 0};
  void* start = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.fd(), 0);
  if (start == MAP_FAILED) return read_stream(file, std::move(name), limit);
  const auto* first = static_cast<const std::byte*>(start);
  auto noted = std::make_shared<const Mapping>(first, size, std::move(file), shown(name));
  // Unknown before it is unmapped: another mapping may get its addresses at once.
  const std::shared_ptr<const std::byte> data(
      first, [size, noted = std::move(noted)](const std::byte* mapped) mutable {
        noted.reset();
        ::munmap(const_cast<std::byte*>(mapped), size);
      });
  return {std::move(name), data, size, true};
}

} // namespace

void forget(const Bytes& bytes, const char* first, const char* last) {
  if (!bytes.mapped) return;
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  const auto* start = reinterpret_cast<const char*>(bytes.data.get());
  const auto from = static_cast<std::size_t>(first - start) / page * page,
             to = static_cast<std::size_t>(last - start) / page * page;
  if (from < to) ::madvise(const_cast<char*>(start + from), to - from, MADV_DONTNEED);
}

std::shared_ptr<const std::byte> in_place(const Bytes& bytes, std::size_t first, std::size_t size) {
  const std::byte* const data = bytes.data.get() + first;
  if (!bytes.mapped) return {bytes.data, data};
  return {data, [bytes, size](const std::byte* held) {
            const auto* const text = reinterpret_cast<const char*>(held);
            forget(bytes, text, text + size);
          }};
}

namespace {

/// The kind of a file that is not a regular one; nullptr for a regular file.
const char* irregular_kind(const struct stat& status) {
  if (S_ISDIR(status.st_mode)) return "a folder";
  if (S_ISCHR(status.st_mode) || S_ISBLK(status.st_mode)) return "a device";
  if (S_ISFIFO(status.st_mode)) return "a pipe";
  if (S_ISSOCK(status.st_mode)) return "a socket";
  return S_ISREG(status.st_mode) ? nullptr : "not a file";
}

/// Refuses devices, which have no end or are a whole disk. /dev/null counts as an empty file.
void refuse_device(const struct stat& status, const std::string& name) {
  const bool device = S_ISCHR(status.st_mode) || S_ISBLK(status.st_mode);
  if (device && !(S_ISCHR(status.st_mode) && status.st_rdev == makedev(1, 3)))
    fail("{}: is a device; files and pipes are read", shown(name));
}

/// A stream can be read only once, so its bytes are kept for a second request (two bindings from
/// one pipe).
Bytes read_stream_once(const File& file, const std::string& path, std::string name,
                       const StreamLimit& limit) {
  static std::map<std::string, Bytes> streams;
  static std::map<std::string, Message> refused; // partly read, so they cannot be read again
  static std::mutex lock;
  const std::lock_guard hold(lock);
  const auto known = streams.find(path);
  if (known != streams.end()) return known->second;
  if (const auto before = refused.find(path); before != refused.end()) fail("{}", before->second);
  try {
    return streams.emplace(path, read_stream(file, std::move(name), limit)).first->second;
  } catch (const Error& error) {
    refused.emplace(path, error.message());
    throw;
  }
}

} // namespace

Bytes read_bytes(const std::string& path) {
  return read_bytes(path, StreamLimit{});
}

Bytes read_bytes(const std::string& path, const StreamLimit& limit) {
  const bool standard = path == "-";
  File file(standard ? ::dup(STDIN_FILENO) : ::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  std::string name = standard ? std::string(standard_input) : path;
  if (file.fd() < 0) fail_to_open(name, errno);

  struct stat status {};
  if (::fstat(file.fd(), &status) != 0) fail("{}: cannot read: {}", shown(name), reason(errno));
  if (S_ISDIR(status.st_mode)) fail("{}: is a folder, not a file", shown(name));
  if (standard && ::isatty(file.fd()) != 0)
    fail("standard input is a terminal: give a file, or pipe one in");
  refuse_device(status, name);
  // Files in /proc report size 0. Standard input may have been read in part before.
  const bool whole = S_ISREG(status.st_mode) && status.st_size > 0 &&
                     (!standard || ::lseek(file.fd(), 0, SEEK_CUR) == 0);
  const auto size = static_cast<std::size_t>(status.st_size);
  note_input(path, status, whole && size >= mapped_from);
  if (whole && size < mapped_from) return read_small(file, std::move(name), size);
  if (whole) return map(std::move(file), std::move(name), size, limit);
  return read_stream_once(file, path, std::move(name), limit);
}

Bytes read_member(const std::string& path) {
  // Without O_NONBLOCK, opening a pipe waits for a writer.
  const File file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat status {};
  const char* kind = nullptr;
  if (file.fd() >= 0 && ::fstat(file.fd(), &status) == 0) {
    kind = irregular_kind(status);
  } else {
    // A socket cannot be opened at all.
    const int code = errno;
    if (::stat(path.c_str(), &status) != 0 || !(kind = irregular_kind(status)))
      fail_to_open(path, code);
  }
  if (kind && S_ISDIR(status.st_mode)) fail("{}: is a folder, not a file", shown(path));
  if (kind) fail("{}: is {}; only regular files are read from a folder", shown(path), kind);
  return read_bytes(path);
}

void refuse_pointer(const Bytes& bytes) {
  if (bytes.text().starts_with("version https://git-lfs.github.com/spec/"))
    fail("{}: a Git LFS pointer, not the file itself; download it: git lfs pull",
         shown(bytes.name));
}

} // namespace mha::io
