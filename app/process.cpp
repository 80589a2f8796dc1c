#include "process.hpp"

#include "progress.hpp"
#include <mha/files/temporaries.hpp>
#include <mha/system/file.hpp>

#include <pthread.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdlib> // defines __GLIBC__
#include <cstring>
#include <thread>
#ifdef __GLIBC__
#include <malloc.h>
#endif

namespace mha::app {

int run_on_own_stack(const std::function<int()>& work) {
  constexpr std::size_t least = 1 << 20, usual = 8 << 20; // bytes
  rlimit limit{};
  if (getrlimit(RLIMIT_STACK, &limit) != 0 || limit.rlim_cur >= least) return work();
  // The stack of the first thread cannot be enlarged; that of other threads is configurable.
  pthread_attr_t settings;
  if (pthread_attr_init(&settings) != 0) return work();
  const bool set = pthread_attr_setstacksize(&settings, usual) == 0 &&
                   pthread_setattr_default_np(&settings) == 0;
  pthread_attr_destroy(&settings);
  if (!set) return work();
  int code = 0;
  std::thread([&] { code = work(); }).join();
  return code;
}

void keep_freed_memory() {
#ifdef __GLIBC__
  mallopt(M_MMAP_THRESHOLD, 32 << 20); // its maximum
  mallopt(M_TRIM_THRESHOLD, 1 << 30);
#endif
}

namespace {

/// Writes a message by write(), which is safe in a signal handler.
void write_message(const char* text) {
  if (::write(STDERR_FILENO, text, std::strlen(text)) < 0) return; // standard error is gone
}

/// Whether this is the first signal that ends the program. Several threads may fault at once, and
/// Ctrl-C may be pressed twice.
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

/// Handles a fault of the program, or the same signal from outside.
void end_by_fault(int signal) {
  if (is_first()) {
    clear_progress();
    io::remove_temporaries(true);
  }
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

void bus_error(int signal, siginfo_t* info, void*) {
  if (const char* message = shortened_file_at(info->si_addr)) {
    while (!is_first()) ::pause();
    clear_progress();
    io::remove_temporaries();
    write_message("mha-inspect: ");
    write_message(message);
    write_message("\n");
    _exit(2);
  }
  end_by_fault(signal);
}

/// Installs a handler unless another one exists: nohup and shells' background jobs ignore signals,
/// and sanitizers and profilers have their own handlers.
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
