#include "process.hpp"

#include "progress.hpp"
#include <mha/files/mapping.hpp>
#include <mha/files/temporaries.hpp>

#include <pthread.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdlib> // says which C library it is
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
  // The stack of the first thread cannot be made larger; that of others is a setting.
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
  mallopt(M_MMAP_THRESHOLD, 32 << 20); // the most that it takes
  mallopt(M_TRIM_THRESHOLD, 1 << 30);
#endif
}

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
