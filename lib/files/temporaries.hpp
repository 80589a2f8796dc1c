#pragma once
// Files and folders that must not outlive the program, however it ends.

#include <mha/system/signal_list.hpp>

#include <csignal>
#include <cstdint>
#include <string>

namespace mha::io {

/// Removes a file or folder, unless it is kept, when this object is destroyed or when a signal ends
/// the program (remove_temporaries()). Create it before the file, within an Uninterrupted.
class Temporary {
public:
  enum class Kind : std::uint8_t { file, folder };

  Temporary() = default;
  Temporary(const std::string& path, Kind kind);
  Temporary(Temporary&& other) noexcept { *this = std::move(other); }
  Temporary& operator=(Temporary&& other) noexcept;
  ~Temporary();

  /// The file or folder is the result and stays.
  void keep();

  struct Name {
    std::string path;
    Kind kind;
  };

private:
  SignalList<Name>::Place* place_ = nullptr;
};

/// During its lifetime no signal ends the program, so that creating a temporary file or renaming
/// several files is not interrupted. Keep it short: Ctrl-C waits for it.
class Uninterrupted {
public:
  Uninterrupted();
  ~Uninterrupted();
  Uninterrupted(const Uninterrupted&) = delete;
  Uninterrupted& operator=(const Uninterrupted&) = delete;

private:
  sigset_t before_{};
};

/// Signals from outside that end a program unless it handles them: from a terminal, a batch system,
/// a limit, a timer. The real-time signals also end it. SIGPIPE and SIGXFSZ are not listed: if
/// ignored, they become errors of write().
inline constexpr int ending_signals[] = {SIGINT,    SIGTERM, SIGHUP,  SIGQUIT, SIGXCPU, SIGALRM,
                                         SIGVTALRM, SIGPROF, SIGUSR1, SIGUSR2, SIGIO,   SIGPWR};
/// Signals that a fault of the program itself causes.
inline constexpr int fault_signals[] = {SIGABRT, SIGSEGV, SIGILL, SIGFPE, SIGTRAP, SIGSYS};

/// Removes all temporary files and folders. A signal handler calls it last: it waits for every
/// Uninterrupted, and no new one begins. After a fault of the program (`fault`), whose thread may
/// be within an Uninterrupted, the wait is limited. The library installs no handler.
void remove_temporaries(bool fault = false) noexcept;

} // namespace mha::io
