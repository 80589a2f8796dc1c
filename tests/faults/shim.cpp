// Loaded before the program (LD_PRELOAD): makes one of its calls of the system fail.
//
//   FAULT_CALLS  the calls that are counted, "write,pwrite"; default: all of those below
//   FAULT_AT     the number of the call that fails, from 1
//   FAULT_DO     what happens: an errno by number; "short": a write takes one byte; "signal:2": a
//                signal comes, and the call goes on; "cut:PATH": the file loses its second half
//                after the call; "change:PATH": its last byte becomes another
//                "memory:N": the N-th request for memory after the first call that is counted gets
//                none, and no later one; "once:N": only that one
//   FAULT_MARK   a file that is made when it happens, so that a test knows the last number
//   FAULT_CLOCK  every look at the clock shows so many milliseconds more than the one before

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <string>

namespace {

std::atomic<long> calls = 0;
std::atomic<long> until_out_of_memory = -1; // requests until there is no more; -1: enough for all
std::atomic<bool> only_once = false;

/// Whether this request for memory gets none.
bool out_of_memory() {
  if (until_out_of_memory < 0) return false;
  if (until_out_of_memory > 0) {
    --until_out_of_memory;
    return false;
  }
  if (only_once) until_out_of_memory = -1;
  return true;
}

void mark() {
  const char* path = std::getenv("FAULT_MARK");
  const int file =
      static_cast<int>(syscall(SYS_openat, AT_FDCWD, path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
  if (file >= 0) syscall(SYS_close, file);
}

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

bool is_counted(const char* call) {
  const std::string list = variable("FAULT_CALLS");
  return list.empty() || ("," + list + ",").find("," + std::string(call) + ",") != list.npos;
}

/// What is to happen in this call: "" for nothing.
std::string fault(const char* call) {
  static const long at = std::atol(variable("FAULT_AT").c_str());
  if (at == 0 || !is_counted(call) || ++calls != at) return "";
  mark();
  return variable("FAULT_DO");
}

/// The call itself, with what happens before, instead of, or after it.
template <class Call> auto with_fault(const char* name, const Call& call) -> decltype(call()) {
  const std::string what = fault(name);
  if (!what.empty() && what.find_first_not_of("0123456789") == what.npos) {
    errno = std::atoi(what.c_str());
    return decltype(call())(-1);
  }
  if (what.starts_with("signal:")) kill(getpid(), std::atoi(what.c_str() + 7));
  if (what.starts_with("memory:")) until_out_of_memory = std::atol(what.c_str() + 7);
  if (what.starts_with("once:")) {
    only_once = true;
    until_out_of_memory = std::atol(what.c_str() + 5);
  }
  const auto result = call();
  if (what.starts_with("cut:")) {
    const char* path = what.c_str() + 4;
    struct stat status {};
    if (stat(path, &status) != 0 || truncate(path, status.st_size / 2) != 0) _exit(99);
  }
  if (what.starts_with("change:")) {
    const int file =
        static_cast<int>(syscall(SYS_openat, AT_FDCWD, what.c_str() + 7, O_WRONLY | O_CLOEXEC, 0));
    struct stat status {};
    const char last = 1;
    if (fstat(file, &status) != 0 || syscall(SYS_pwrite64, file, &last, 1, status.st_size - 1) != 1)
      _exit(99);
    syscall(SYS_close, file);
  }
  return result;
}

template <class Function> Function* next(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

int open_file(const char* name, const char* path, int flags, mode_t mode) {
  return with_fault("open",
                    [&] { return next<int(const char*, int, ...)>(name)(path, flags, mode); });
}

ssize_t write_at(const char* name, int file, const void* data, size_t size, off_t offset) {
  static auto* real = next<ssize_t(int, const void*, size_t, off_t)>(name);
  return with_fault("pwrite", [&] {
    const bool is_short = variable("FAULT_DO") == "short" && size > 1;
    return real(file, data, is_short ? 1 + size / 2 : size, offset);
  });
}

} // namespace

extern "C" {

void* __libc_malloc(size_t size);
void* __libc_memalign(size_t alignment, size_t size);
void* malloc(size_t size) {
  return out_of_memory() ? nullptr : __libc_malloc(size);
}
void* aligned_alloc(size_t alignment, size_t size) {
  return out_of_memory() ? nullptr : __libc_memalign(alignment, size);
}

int open(const char* path, int flags, ...) {
  va_list more;
  va_start(more, flags);
  const auto mode = static_cast<mode_t>((flags & O_CREAT) != 0 ? va_arg(more, int) : 0);
  va_end(more);
  return open_file("open", path, flags, mode);
}
int open64(const char* path, int flags, ...) {
  va_list more;
  va_start(more, flags);
  const auto mode = static_cast<mode_t>((flags & O_CREAT) != 0 ? va_arg(more, int) : 0);
  va_end(more);
  return open_file("open64", path, flags, mode);
}
int mkostemp(char* path, int flags) {
  return with_fault("open", [&] { return next<int(char*, int)>("mkostemp")(path, flags); });
}
ssize_t write(int file, const void* data, size_t size) {
  return with_fault("write", [&] {
    const bool is_short = variable("FAULT_DO") == "short" && size > 1;
    return next<ssize_t(int, const void*, size_t)>("write")(file, data,
                                                            is_short ? 1 + size / 2 : size);
  });
}
ssize_t pwrite(int file, const void* data, size_t size, off_t offset) {
  return write_at("pwrite", file, data, size, offset);
}
ssize_t pwrite64(int file, const void* data, size_t size, off_t offset) {
  return write_at("pwrite64", file, data, size, offset);
}
ssize_t read(int file, void* data, size_t size) {
  return with_fault("read",
                    [&] { return next<ssize_t(int, void*, size_t)>("read")(file, data, size); });
}
ssize_t pread(int file, void* data, size_t size, off_t offset) {
  return with_fault("pread", [&] {
    return next<ssize_t(int, void*, size_t, off_t)>("pread")(file, data, size, offset);
  });
}
int close(int file) {
  return with_fault("close", [&] { return next<int(int)>("close")(file); });
}
int ftruncate(int file, off_t size) {
  return with_fault("ftruncate", [&] { return next<int(int, off_t)>("ftruncate")(file, size); });
}
int truncate(const char* path, off_t size) {
  return next<int(const char*, off_t)>("truncate")(path, size);
}
int rename(const char* from, const char* to) {
  return with_fault("rename",
                    [&] { return next<int(const char*, const char*)>("rename")(from, to); });
}
int renameat2(int from_folder, const char* from, int to_folder, const char* to, unsigned flags) {
  return with_fault("rename", [&] {
    return next<int(int, const char*, int, const char*, unsigned)>("renameat2")(
        from_folder, from, to_folder, to, flags);
  });
}
int clock_gettime(clockid_t clock, timespec* time) {
  static const long step = std::atol(variable("FAULT_CLOCK").c_str());
  static std::atomic<long> looks = 0;
  if (step == 0) return next<int(clockid_t, timespec*)>("clock_gettime")(clock, time);
  const long milliseconds = ++looks * step;
  *time = {milliseconds / 1000, milliseconds % 1000 * 1000000};
  return 0;
}
int mkdir(const char* path, mode_t mode) {
  return with_fault("mkdir", [&] { return next<int(const char*, mode_t)>("mkdir")(path, mode); });
}
int fstat(int file, struct stat* status) {
  return with_fault("fstat", [&] { return next<int(int, struct stat*)>("fstat")(file, status); });
}
void* mmap(void* address, size_t size, int protection, int flags, int file, off_t offset) {
  static auto* real = next<void*(void*, size_t, int, int, int, off_t)>("mmap");
  if (file < 0) return real(address, size, protection, flags, file, offset);
  return with_fault("mmap", [&] { return real(address, size, protection, flags, file, offset); });
}

} // extern "C"
