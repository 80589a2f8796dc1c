#include "signals.hpp"

#include "progress_bar.hpp"
#include <mha/files/file.hpp>
#include <mha/files/temporaries.hpp>

#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstring>

namespace mha::app {

namespace {

/// A handler may write(), not print.
void say(const char* text) {
  if (::write(STDERR_FILENO, text, std::strlen(text)) < 0) return; // standard error is gone
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

/// A fault of ours, or a signal from outside.
void end_by_fault(int signal) {
  if (is_first()) {
    clear_progress();
    io::remove_temporaries(true);
  }
  std::signal(signal, SIG_DFL);
  std::raise(signal);
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
  end_by_fault(signal);
}

/// Handlers of others stay: nohup, and shells for what runs in the background, want signals
/// ignored; sanitizers and profilers have their own.
void handle(int signal, const struct sigaction& action) {
  struct sigaction before {};
  if (sigaction(signal, nullptr, &before) == 0 && before.sa_handler == SIG_DFL)
    sigaction(signal, &action, nullptr);
}

} // namespace

void handle_signals() {
  std::signal(SIGPIPE, SIG_IGN); // a closed pipe is an error of write()
  std::signal(SIGXFSZ, SIG_IGN); // so is a file that may not grow
  struct sigaction action {};
  action.sa_handler = end;
  sigemptyset(&action.sa_mask);
  for (const int signal : io::ending_signals) handle(signal, action);
  for (int signal = SIGRTMIN; signal <= SIGRTMAX; ++signal) handle(signal, action);
  action.sa_handler = end_by_fault;
  for (const int signal : io::fault_signals) handle(signal, action);
  action.sa_sigaction = bus_error;
  action.sa_flags = SA_SIGINFO;
  sigaction(SIGBUS, &action, nullptr);
}

} // namespace mha::app
