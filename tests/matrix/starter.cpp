// Loaded before the program (LD_PRELOAD): the process waits at `main` and is copied for every run
// that it is asked for, so that a run costs neither the loading of the program nor the start of a
// sanitizer. A copy has what a new process has: nothing of the program ran before `main`.
//
//   MATRIX_STARTER  the number of a socket. A request is a length (4 bytes) and as many bytes: a folder,
//                   the files of standard output and of standard error, then the arguments, each
//                   ended by a zero. The answer is what waitpid says of the copy (4 bytes), and its
//                   processor time in microseconds (8 bytes).

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

namespace {

using Main = int (*)(int, char**, char**);
Main program = nullptr;

bool receive(int socket, void* to, std::size_t size) {
  return size == 0 || ::recv(socket, to, size, MSG_WAITALL) == static_cast<ssize_t>(size);
}

/// The words of a request; none where nobody asks any more.
std::vector<std::string> next_request(int socket) {
  std::uint32_t size = 0;
  if (!receive(socket, &size, sizeof size)) return {};
  std::string bytes(size, '\0');
  if (!receive(socket, bytes.data(), size)) return {};
  std::vector<std::string> words;
  for (std::size_t at = 0, end; (end = bytes.find('\0', at)) != bytes.npos; at = end + 1)
    words.push_back(bytes.substr(at, end - at));
  return words;
}

void open_as(int number, const char* path, int flags) {
  const int file = ::open(path, flags, 0600);
  if (file < 0 || ::dup2(file, number) < 0) _exit(125);
  if (file != number) ::close(file);
}

std::int64_t microseconds(const timeval& time) {
  return std::int64_t{1'000'000} * time.tv_sec + time.tv_usec;
}

/// In the place of `main`: serves requests, and returns in each copy what its run returns.
int serve(int count, char** words, char** environment) {
  const char* number = std::getenv("MATRIX_STARTER");
  if (!number) return program(count, words, environment);
  const int socket = std::atoi(number);
  ::unsetenv("MATRIX_STARTER");
  ::unsetenv("LD_PRELOAD");
  for (;;) {
    std::vector<std::string> request = next_request(socket);
    if (request.size() < 3) _exit(0);
    const pid_t copy = ::fork();
    if (copy == 0) {
      ::close(socket);
      if (::chdir(request[0].c_str()) != 0) _exit(125);
      open_as(STDIN_FILENO, "/dev/null", O_RDONLY);
      open_as(STDOUT_FILENO, request[1].c_str(), O_WRONLY | O_CREAT | O_TRUNC);
      open_as(STDERR_FILENO, request[2].c_str(), O_WRONLY | O_CREAT | O_TRUNC);
      std::vector<char*> own{words[0]};
      for (std::size_t i = 3; i < request.size(); ++i) own.push_back(request[i].data());
      own.push_back(nullptr);
      return program(static_cast<int>(own.size()) - 1, own.data(), environ);
    }
    int status = -1;
    rusage usage{};
    if (copy < 0 || ::wait4(copy, &status, 0, &usage) != copy) _exit(125);
    const std::int64_t time = microseconds(usage.ru_utime) + microseconds(usage.ru_stime);
    if (::send(socket, &status, sizeof status, 0) < 0 || ::send(socket, &time, sizeof time, 0) < 0)
      _exit(125);
  }
}

} // namespace

extern "C" int __libc_start_main(Main main, int count, char** words, void (*init)(), void (*fini)(),
                                 void (*loader_fini)(), void* stack_end) {
  program = main;
  using Start = int (*)(Main, int, char**, void (*)(), void (*)(), void (*)(), void*);
  const auto start = reinterpret_cast<Start>(dlsym(RTLD_NEXT, "__libc_start_main"));
  return start(serve, count, words, init, fini, loader_fini, stack_end);
}
