// Loaded before the program (LD_PRELOAD): the process waits at `main` and is copied for every run
// that it is asked for, so that a run costs neither the loading of the program nor the start of a
// sanitizer. A copy has what a new process has: nothing of the program ran before `main`.
//
//   MATRIX_STARTER  the number of a socket. A request is a length (4 bytes) and as many bytes: a
//   folder,
//                   the files of standard output and of standard error, the number of variables of
//                   the environment, these, then the arguments, each ended by a zero. Instead of
//                   files the three standard streams may come with the length, and the variables of
//                   this process remain where no number is written. The answer is what waitpid
//                   reports of the copy (4 bytes), and its processor time in microseconds (8
//                   bytes).

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

namespace {

using Main = int (*)(int, char**, char**);
Main program = nullptr;

bool receive(int socket, void* to, std::size_t size) {
  return size == 0 || ::recv(socket, to, size, MSG_WAITALL) == static_cast<ssize_t>(size);
}

struct Request {
  std::vector<std::string> words; // none where nobody asks any more
  std::vector<int> streams;       // those that were sent
};

/// The length of a request, with the streams that come with it.
bool receive_length(int socket, std::uint32_t& size, std::vector<int>& streams) {
  alignas(cmsghdr) char control[CMSG_SPACE(3 * sizeof(int))];
  iovec bytes{&size, sizeof size};
  msghdr message{};
  message.msg_iov = &bytes, message.msg_iovlen = 1;
  message.msg_control = control, message.msg_controllen = sizeof control;
  if (::recvmsg(socket, &message, MSG_WAITALL) != static_cast<ssize_t>(sizeof size)) return false;
  const cmsghdr* sent = CMSG_FIRSTHDR(&message);
  if (sent && sent->cmsg_type == SCM_RIGHTS && sent->cmsg_len == CMSG_LEN(3 * sizeof(int))) {
    streams.resize(3);
    std::memcpy(streams.data(), CMSG_DATA(sent), 3 * sizeof(int));
  }
  return true;
}

Request next_request(int socket) {
  std::uint32_t size = 0;
  Request request;
  if (!receive_length(socket, size, request.streams)) return {};
  std::string bytes(size, '\0');
  if (!receive(socket, bytes.data(), size)) return {};
  for (std::size_t at = 0, end; (end = bytes.find('\0', at)) != bytes.npos; at = end + 1)
    request.words.push_back(bytes.substr(at, end - at));
  return request;
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
    Request request = next_request(socket);
    std::vector<std::string>& sent = request.words;
    if (sent.size() < 4) _exit(0);
    const pid_t copy = ::fork();
    if (copy == 0) {
      ::close(socket);
      if (::chdir(sent[0].c_str()) != 0) _exit(125);
      if (request.streams.empty()) {
        open_as(STDIN_FILENO, "/dev/null", O_RDONLY);
        open_as(STDOUT_FILENO, sent[1].c_str(), O_WRONLY | O_CREAT | O_TRUNC);
        open_as(STDERR_FILENO, sent[2].c_str(), O_WRONLY | O_CREAT | O_TRUNC);
      }
      for (int number = 0; const int stream : request.streams) {
        if (::dup2(stream, number++) < 0) _exit(125);
        ::close(stream);
      }
      const std::size_t variables = std::strtoul(sent[3].c_str(), nullptr, 10);
      if (!sent[3].empty()) ::clearenv();
      for (std::size_t i = 4; i < 4 + variables; ++i) ::putenv(sent[i].data());
      std::vector<char*> own{words[0]};
      for (std::size_t i = 4 + variables; i < sent.size(); ++i) own.push_back(sent[i].data());
      own.push_back(nullptr);
      return program(static_cast<int>(own.size()) - 1, own.data(), environ);
    }
    for (const int stream : request.streams) ::close(stream);
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
