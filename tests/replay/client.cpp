// Stands for the program while its command lines are recorded (record.py): reports to the recorder
// that a run is about to start, waits until its input and its folder are kept, and becomes the
// program. Linked statically, so that no library that a test puts before the program meets it.
//
//   ../socket   beside its folder: the recorder's. It learns of whom it is asked from the system,
//   and
//               answers 'i' (read the standard input, and say it) or 'g' (go).
//   ../program  a link to the program.

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <csignal>
#include <cstdint>
#include <cstring>
#include <string>

namespace {

constexpr std::size_t most = 64 << 20; // bytes of standard input that are kept

/// The folder above the one that holds this program.
std::string place() {
  std::string path(4096, '\0');
  const ssize_t length = ::readlink("/proc/self/exe", path.data(), path.size());
  path.resize(length > 0 ? static_cast<std::size_t>(length) : 0);
  for (int up = 0; up < 2; ++up) path.resize(path.rfind('/') == path.npos ? 0 : path.rfind('/'));
  return path;
}

/// A descriptor that takes the place of no closed standard stream; -1 where nobody records.
int connection(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path) return -1;
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  const int low = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (low < 0) return -1;
  const int socket = ::fcntl(low, F_DUPFD_CLOEXEC, 10);
  ::close(low);
  if (::connect(socket, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0)
    return socket;
  ::close(socket);
  return -1;
}

bool send_all(int to, const char* data, std::size_t size) {
  while (size > 0) {
    const ssize_t n = ::write(to, data, size);
    if (n <= 0) return false;
    data += n, size -= static_cast<std::size_t>(n);
  }
  return true;
}

/// Up to `most` bytes of standard input.
std::string read_input() {
  std::string text;
  char buffer[65536];
  for (ssize_t n; text.size() < most && (n = ::read(STDIN_FILENO, buffer, sizeof buffer)) > 0;)
    text.append(buffer, static_cast<std::size_t>(n));
  return text;
}

/// Gives the program a pipe with what was read, and with what follows it.
void give_back(const std::string& input) {
  int ends[2];
  if (::pipe(ends) != 0) return;
  if (::fork() == 0) {
    ::signal(SIGPIPE, SIG_DFL);
    ::close(ends[0]), ::close(STDOUT_FILENO), ::close(STDERR_FILENO);
    bool taken = send_all(ends[1], input.data(), input.size());
    char buffer[65536];
    for (ssize_t n; taken && (n = ::read(STDIN_FILENO, buffer, sizeof buffer)) > 0;)
      taken = send_all(ends[1], buffer, static_cast<std::size_t>(n));
    _exit(0);
  }
  ::dup2(ends[0], STDIN_FILENO);
  ::close(ends[0]), ::close(ends[1]);
}

} // namespace

int main(int, char** words, char** environment) {
  const std::string here = place();
  if (const int recorder = connection(here + "/socket"); recorder >= 0) {
    char answer = 'g';
    if (::read(recorder, &answer, 1) == 1 && answer == 'i') {
      const std::string input = read_input();
      const std::uint64_t size = input.size();
      if (send_all(recorder, reinterpret_cast<const char*>(&size), sizeof size) &&
          send_all(recorder, input.data(), input.size()) && ::read(recorder, &answer, 1) < 0)
        return 125;
      give_back(input);
    }
    ::close(recorder);
  }
  ::execve((here + "/program").c_str(), words, environment);
  return 127;
}
