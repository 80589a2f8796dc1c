#include "support/copies.hpp"

#include "support/places.hpp"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdint>
#include <cstring>
#include <stdexcept>

namespace mha::test {

namespace {

std::vector<char*> pointers_to(const std::vector<std::string>& texts) {
  std::vector<char*> list;
  for (const std::string& text : texts) list.push_back(const_cast<char*>(text.c_str()));
  list.push_back(nullptr);
  return list;
}

void append(std::string& request, const std::string& word) {
  request.append(word).push_back('\0');
}

} // namespace

pid_t spawn(const std::vector<std::string>& words, const std::vector<std::string>& variables,
            const posix_spawn_file_actions_t* files) {
  posix_spawnattr_t settings;
  posix_spawnattr_init(&settings);
  sigset_t signals;
  sigemptyset(&signals), sigaddset(&signals, SIGPIPE);
  posix_spawnattr_setsigdefault(&settings, &signals);
  posix_spawnattr_setflags(&settings, POSIX_SPAWN_SETSIGDEF);
  pid_t child = 0;
  const int code = posix_spawnp(&child, words[0].c_str(), files, &settings,
                                pointers_to(words).data(), pointers_to(variables).data());
  posix_spawnattr_destroy(&settings);
  if (code != 0) throw std::runtime_error(words[0] + ": " + std::strerror(code));
  return child;
}

Copies::Copies(const std::vector<std::string>& variables) {
  std::array<int, 2> ends{};
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0)
    throw std::runtime_error("socketpair");
  socket_ = ends[0];
  fcntl(ends[1], F_SETFD, 0);
  std::vector<std::string> own = variables;
  own.push_back("MATRIX_STARTER=" + std::to_string(ends[1]));
  own.push_back("LD_PRELOAD=" + starter_path());
  process_ = spawn({program_path()}, own);
  close(ends[1]);
}

Copies::~Copies() {
  close(socket_);
  waitpid(process_, nullptr, 0);
}

void Copies::start(const std::string& folder, const std::vector<std::string>& variables,
                   const std::vector<std::string>& arguments, const std::array<int, 3>& streams) {
  std::string request;
  for (const std::string& word :
       {folder, std::string(), std::string(), std::to_string(variables.size())})
    append(request, word);
  for (const std::string& variable : variables) append(request, variable);
  for (const std::string& argument : arguments) append(request, argument);

  std::uint32_t size = static_cast<std::uint32_t>(request.size());
  alignas(cmsghdr) std::array<char, CMSG_SPACE(3 * sizeof(int))> control{};
  iovec bytes{&size, sizeof size};
  msghdr message{};
  message.msg_iov = &bytes, message.msg_iovlen = 1;
  message.msg_control = control.data(), message.msg_controllen = control.size();
  cmsghdr* const sent = CMSG_FIRSTHDR(&message);
  sent->cmsg_level = SOL_SOCKET, sent->cmsg_type = SCM_RIGHTS;
  sent->cmsg_len = CMSG_LEN(3 * sizeof(int));
  std::memcpy(CMSG_DATA(sent), streams.data(), 3 * sizeof(int));
  if (sendmsg(socket_, &message, MSG_NOSIGNAL) != sizeof size)
    throw std::runtime_error("the process that is copied has ended");
  for (std::size_t at = 0; at < request.size();) {
    const ssize_t count = send(socket_, request.data() + at, request.size() - at, MSG_NOSIGNAL);
    if (count <= 0) throw std::runtime_error("the process that is copied has ended");
    at += static_cast<std::size_t>(count);
  }
}

int Copies::status() {
  int status = 0;
  std::int64_t microseconds = 0;
  if (recv(socket_, &status, sizeof status, MSG_WAITALL) != sizeof status ||
      recv(socket_, &microseconds, sizeof microseconds, MSG_WAITALL) != sizeof microseconds)
    throw std::runtime_error("the process that is copied has ended");
  return status;
}

} // namespace mha::test
