#include "signals.hpp"

#include "progress_bar.hpp"
#include <mha/files/mapping.hpp>
#include <mha/files/temporaries.hpp>

#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstring>

namespace mha::app {

namespace {

/// A handler may write(), not print.
void say(const char* text) {
  if (::write(STDERR_FILENO, text, std::strlen(text)) < 0) return; // nobody is left to tell
}

/// Whether this is the first signal that ends the program: several threads may fault at once, and
/// Ctrl-C may be pressed again.
bool is_first() {
  static std::atomic<bool> ending = false;
  return !ending.exchange(true);
}

void end(int signal) {
  if (!is_first()) return;
  clear_progress();
  io::remove_temporaries();
  std::signal(signal, SIG_DFL);
  std::raise(signal); // has its effect when this handler returns
}

void bus_error(int signal, siginfo_t* info, void*) {
  if (const char* message = io::shortened_file_at(info->si_addr)) {
    while (!is_first()) ::pause();
    clear_progress();
    io::remove_temporaries();
    say("mha-inspect: ");
    say(message);
    say("\n");
    _exit(2);
  }
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

} // namespace

void handle_signals() {
  std::signal(SIGPIPE, SIG_IGN); // a closed pipe is an error of write()
  std::signal(SIGXFSZ, SIG_IGN); // so is a file that may not grow
  struct sigaction action {};
  action.sa_handler = end;
  sigemptyset(&action.sa_mask);
  for (const int ending : {SIGINT, SIGTERM, SIGHUP}) {
    struct sigaction before {};
    // nohup, and shells for what runs in the background, want these ignored.
    if (sigaction(ending, nullptr, &before) == 0 && before.sa_handler == SIG_IGN) continue;
    sigaction(ending, &action, nullptr);
  }
  action.sa_sigaction = bus_error;
  action.sa_flags = SA_SIGINFO;
  sigaction(SIGBUS, &action, nullptr);
}

} // namespace mha::app
