#pragma once
// Files and folders that must not outlive the program, however it ends.

#include <mha/files/signal_list.hpp>

#include <csignal>
#include <cstdint>
#include <string>

namespace mha::io {

/// A name that is removed again, unless it is kept: when its owner goes, or by remove_temporaries()
/// when a signal ends the program. To be noted before the file is made, within an Uninterrupted.
class Temporary {
public:
  enum class Kind : std::uint8_t { file, folder };

  Temporary() = default;
  Temporary(const std::string& path, Kind kind);
  Temporary(Temporary&& other) noexcept { *this = std::move(other); }
  Temporary& operator=(Temporary&& other) noexcept;
  ~Temporary();

  /// It has become what was asked for.
  void keep();

  struct Name {
    std::string path;
    Kind kind;
  };

private:
  SignalList<Name>::Place* place_ = nullptr;
};

/// While one lives, a signal does not end the program in between: the making of a temporary file,
/// the renaming of several. Short: Ctrl-C waits for it.
class Uninterrupted {
public:
  Uninterrupted();
  ~Uninterrupted();
  Uninterrupted(const Uninterrupted&) = delete;
  Uninterrupted& operator=(const Uninterrupted&) = delete;

private:
  sigset_t before_{};
};

/// The signals that end a program unless it handles them and that others send: from a terminal, a
/// batch system, a limit, a timer. SIGPIPE and SIGXFSZ are errors of write() where they are
/// ignored; the real-time signals end it, too.
inline constexpr int ending_signals[] = {SIGINT,    SIGTERM, SIGHUP,  SIGQUIT, SIGXCPU, SIGALRM,
                                         SIGVTALRM, SIGPROF, SIGUSR1, SIGUSR2, SIGIO,   SIGPWR};
/// Those that a fault of the program itself causes.
inline constexpr int fault_signals[] = {SIGABRT, SIGSEGV, SIGILL, SIGFPE, SIGTRAP, SIGSYS};

/// Removes what is temporary. For handlers of signals, whose last act it is: every Uninterrupted is
/// waited for, and none begins any more. After a fault of the program, whose thread may be in one,
/// the wait ends after a while (`fault`). The library installs no handler.
void remove_temporaries(bool fault = false) noexcept;

} // namespace mha::io
