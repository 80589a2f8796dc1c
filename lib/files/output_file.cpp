#include <mha/files/output_file.hpp>

#include <mha/files/inputs.hpp>
#include <mha/files/paths.hpp>
#include <mha/files/text.hpp>
#include <mha/files/writer.hpp>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <vector>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

namespace mha::io {

namespace {

constexpr std::uint64_t smallest_file = std::uint64_t{16} << 20;
constexpr std::size_t smallest_piece = std::size_t{64} << 10;
constexpr std::size_t step = std::size_t{1} << 20; // bytes at once: 128 KiB take a fifth longer

constexpr std::size_t most_present = std::size_t{4} << 20;

// Linux 5.14; older kernels refuse it, and then nothing is written through the map.
constexpr int populate_write = 23; // MADV_POPULATE_WRITE

/// Whether a map is known to be faster than write() on this file system. On a network file system
/// each page may be a message to another machine.
bool maps_well(int fd) {
  constexpr auto ext4 = 0xef53, tmpfs = 0x01021994;
  struct statfs status {};
  return ::fstatfs(fd, &status) == 0 && (status.f_type == ext4 || status.f_type == tmpfs);
}

} // namespace

void OutputMap::open(int fd, std::uint64_t size) {
  close();
  if (size < smallest_file || !maps_well(fd)) return;
  void* const start = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (start == MAP_FAILED) return;
  start_ = static_cast<std::byte*>(start);
  size_ = size;
}

void OutputMap::close() {
  if (start_) ::munmap(start_, size_);
  start_ = nullptr;
}

bool OutputMap::write(std::uint64_t offset, const void* data, std::size_t size) {
  if (!start_ || size < smallest_piece || offset > size_ || size > size_ - offset) return false;
  static const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  const auto* from = static_cast<const std::byte*>(data);
  const std::size_t written = size;
  for (std::size_t n = 0; size > 0; offset += n, from += n, size -= n) {
    n = std::min(size, step);
    std::byte* const first = start_ + offset / page * page;
    const auto length = static_cast<std::size_t>(start_ + offset + n - first);
    if (::madvise(first, length, populate_write) != 0) return false;
    std::memcpy(start_ + offset, from, n);
  }
  // Written pages stay in the file's cache, so they need not count as this program's memory.
  // Unmapping them stops every thread for a moment, so it is not done after each piece. A page that
  // another thread is writing is mapped again when it is touched.
  if ((present_ += written) > most_present) {
    present_ = 0;
    ::madvise(start_, size_, MADV_DONTNEED);
  }
  return true;
}

namespace {

bool is_standard_output(std::string_view path) {
  return path == "-" || path == "/dev/stdout" || path == "/dev/fd/1" || path == "/proc/self/fd/1";
}

/// Whether bytes must be written directly to the path, because nothing can be renamed onto it:
/// devices, pipes, and open files without a name, which /proc/self/fd/N refers to. New files are
/// never created in /dev.
bool is_special(const std::string& path) {
  struct stat status {
  }, named{};
  if (::stat(path.c_str(), &status) != 0)
    return path.starts_with("/dev/") && !path.starts_with("/dev/shm/");
  if (!S_ISREG(status.st_mode)) return !S_ISDIR(status.st_mode);
  return ::stat(resolve_links(path).c_str(), &named) != 0 || named.st_ino != status.st_ino ||
         named.st_dev != status.st_dev;
}

/// A name beside `target` that no other process uses. Process numbers are not unique among
/// containers and hosts that share a folder.
std::string name_beside(const std::string& target) {
  static std::atomic<unsigned> counter{0};
  const std::filesystem::path folder = std::filesystem::path(target).parent_path();
  std::uint64_t number = 0;
  if (::getentropy(&number, sizeof number) != 0) number = static_cast<std::uint64_t>(::getpid());
  return (folder / fmt::format(".mha-inspect-{:016x}-{}.tmp", number, counter++)).string();
}

} // namespace

OutputFile::OutputFile(std::string path, bool parked) : path_(std::move(path)), target_(path_) {
  require_no_input(is_standard_output(path_) ? "-" : path_);
  if (is_standard_output(path_) || is_special(path_)) {
    is_direct_ = true;
    if (!is_standard_output(path_)) {
      direct_ = File(::open(path_.c_str(), O_WRONLY | O_CLOEXEC));
      if (direct_.fd() < 0) refuse(errno);
    }
    open_spool();
    return;
  }
  open_beside();
  if (parked) file_ = File();
}

void OutputFile::refuse(int code) const {
  if (code == EPIPE && is_standard_output(path_)) throw ClosedPipe();
  const std::string folder = std::filesystem::path(path_).parent_path().string();
  std::error_code ignored;
  if (code == ENOENT && !folder.empty() && !std::filesystem::exists(folder, ignored))
    fail("{}: cannot write: there is no folder {}; make it first", shown(path_), shown(folder));
  fail("{}: cannot write: {}", path_ == "-" ? "standard output" : shown(path_), reason(code));
}

void OutputFile::open_beside() {
  struct stat status {};
  const bool exists = ::stat(path_.c_str(), &status) == 0;
  if (exists && S_ISDIR(status.st_mode)) fail("{}: cannot write: it is a folder", shown(path_));
  // A link stays a link: its target is replaced, or created if it does not exist.
  target_ = resolve_links(path_);
  if (exists && ::access(target_.c_str(), W_OK) != 0) refuse(errno);
  temporary_ = name_beside(target_);
  {
    const Uninterrupted made;
    removed_ = Temporary(temporary_, Temporary::Kind::file);
    file_ = File(::open(temporary_.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
    const int code = errno;
    if (file_.fd() < 0) {
      removed_.keep(); // it is not ours
      refuse(code);
    }
  }
  if (exists) ::fchmod(file_.fd(), status.st_mode & 07777);
}

void OutputFile::open_spool() {
  const char* folder = std::getenv("TMPDIR");
  std::string name = std::string(folder && *folder ? folder : "/tmp") + "/mha-inspect-XXXXXX";
  const Uninterrupted made;
  file_ = File(::mkostemp(name.data(), O_CLOEXEC));
  if (file_.fd() < 0)
    fail("{}: cannot write: no room to prepare it in {}: {}",
         path_ == "-" ? "standard output" : shown(path_),
         shown(folder && *folder ? folder : "/tmp"), reason(errno));
  ::unlink(name.c_str()); // so that the file is removed when it is closed
}

void OutputFile::write(std::uint64_t offset, const void* data, std::size_t size) {
  if (map_.write(offset, data, size)) return;
  File reopened;
  int fd = file_.fd();
  if (fd < 0) {
    reopened = File(::open(temporary_.c_str(), O_WRONLY | O_CLOEXEC));
    fd = reopened.fd();
    if (fd < 0) refuse(errno);
  }
  const char* from = static_cast<const char*>(data);
  while (size > 0) {
    const ssize_t written = ::pwrite(fd, from, size, static_cast<off_t>(offset));
    if (written < 0 && errno == EINTR) continue;
    // EFAULT: `data` is in a mapped file that became shorter.
    const int code = errno;
    if (const char* shortened = written < 0 && code == EFAULT ? shortened_file_at(from) : nullptr)
      throw Error(shortened);
    if (written < 0) refuse(code);
    from += written;
    offset += static_cast<std::uint64_t>(written);
    size -= static_cast<std::size_t>(written);
  }
}

void OutputFile::resize(std::uint64_t size) {
  const auto length = static_cast<off_t>(size);
  const int result =
      file_.fd() >= 0 ? ::ftruncate(file_.fd(), length) : ::truncate(temporary_.c_str(), length);
  if (result != 0) refuse(errno);
  if (file_.fd() >= 0 && !is_direct_) map_.open(file_.fd(), size);
}

void OutputFile::send(int fd) {
  std::vector<char> block(std::size_t{1} << 20);
  off_t at = 0;
  while (true) {
    const ssize_t got = ::pread(file_.fd(), block.data(), block.size(), at);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) refuse(errno);
    if (got == 0) return;
    at += got;
    for (ssize_t sent = 0; sent < got;) {
      const ssize_t written =
          ::write(fd, block.data() + sent, static_cast<std::size_t>(got - sent));
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) refuse(errno);
      sent += written;
    }
  }
}

void OutputFile::commit() {
  if (is_direct_) {
    require_unchanged_inputs();
    // A file without a name is overwritten in place; devices and pipes have no length.
    struct stat status {};
    const int to = direct_.fd() >= 0 ? direct_.fd() : STDOUT_FILENO;
    const bool file = direct_.fd() >= 0 && ::fstat(to, &status) == 0 && S_ISREG(status.st_mode);
    if (file && ::ftruncate(to, 0) != 0) refuse(errno);
    send(to);
    direct_ = File();
    return;
  }
  close();
  const Uninterrupted renamed;
  if (::rename(temporary_.c_str(), target_.c_str()) != 0) refuse(errno);
  removed_.keep();
}

void OutputFile::close() {
  require_unchanged_inputs();
  map_.close();
  // Some file systems report a full disk only when the file is closed.
  if (file_.fd() >= 0 && ::close(file_.release()) != 0 && errno != EINTR) refuse(errno);
}

void OutputFile::publish() {
  const int exchanged =
      ::renameat2(AT_FDCWD, temporary_.c_str(), AT_FDCWD, target_.c_str(), RENAME_EXCHANGE);
  // The target does not exist, or the file system cannot exchange two files.
  if (exchanged != 0 && ::rename(temporary_.c_str(), target_.c_str()) != 0) refuse(errno);
  is_published_ = true;
  is_exchanged_ = exchanged == 0;
}

void OutputFile::withdraw() noexcept {
  if (!is_published_) return;
  if (is_exchanged_)
    ::renameat2(AT_FDCWD, temporary_.c_str(), AT_FDCWD, target_.c_str(), RENAME_EXCHANGE);
  else
    ::rename(target_.c_str(), temporary_.c_str());
  is_published_ = false;
}

void OutputFile::settle() {
  if (is_exchanged_) ::unlink(temporary_.c_str());
  removed_.keep();
}

void write_whole(const std::string& path, std::string_view bytes) {
  OutputFile file(path);
  file.write(0, bytes);
  file.commit();
}

} // namespace mha::io
