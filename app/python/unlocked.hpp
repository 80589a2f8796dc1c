#pragma once
// Computations without the interpreter's lock that can be interrupted by signals and by Python's
// exit.

#include <mha/system/watch.hpp>

#include <pybind11/pybind11.h>

#include <pthread.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <optional>
#include <thread>

namespace py = pybind11;

namespace mha::python {

/// The threads that compute without the interpreter's lock. A thread that requests the lock while
/// Python exits is terminated in the middle of functions that cannot be unwound, and the process
/// with it. Therefore computations of daemon threads are stopped before Python exits.
class Computing {
public:
  static void begin() { ++count(); }
  static void end() { --count(); }
  /// Mark a call into Python within a computation.
  static void begin_call() { ++calling(); }
  static void end_call() { --calling(); }
  /// If Python is exiting, throws Python's SystemExit, which ends a thread without a message.
  static void require_python() {
    if (!ending()) return;
    const py::gil_scoped_acquire lock;
    PyErr_SetNone(PyExc_SystemExit);
    throw py::error_already_set();
  }
  /// Called once when the module is loaded.
  static void watch_for_end() {
    // The child of a fork has none of the other threads.
    pthread_atfork(nullptr, nullptr, [] { count() = 0, calling() = 0; });
    py::module_::import("atexit").attr("register")(py::cpp_function(&end_all));
  }

private:
  /// Stops computations before their next layer and waits for them, but only briefly if all of them
  /// are in Python functions, which may never return.
  static void end_all() {
    using std::chrono::steady_clock, std::chrono::seconds;
    ending() = true;
    const py::gil_scoped_release free;
    const auto begin = steady_clock::now();
    while (count() > 0 && steady_clock::now() - begin < seconds(count() > calling() ? 10 : 1))
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  static std::atomic<int>& count() {
    static std::atomic<int> threads = 0;
    return threads;
  }
  static std::atomic<int>& calling() {
    static std::atomic<int> threads = 0;
    return threads;
  }
  static std::atomic<bool>& ending() {
    static std::atomic<bool> is_ending = false;
    return is_ending;
  }
};

/// Holds the interpreter's lock during its lifetime, for a call into Python within a computation.
class Call {
public:
  Call() { Computing::begin_call(); }
  ~Call() { Computing::end_call(); }
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

private:
  py::gil_scoped_acquire lock_;
};

/// Releases the interpreter's lock during its lifetime, so that other Python threads run beside a
/// computation. The main thread, the only one that gets Python's signals, checks them before each
/// layer, so Ctrl-C stops its computation. Other threads check whether Python is exiting.
class Unlocked {
  using Clock = std::chrono::steady_clock;

public:
  Unlocked() {
    const py::object main = py::module_::import("threading").attr("main_thread")();
    if (main.attr("ident").cast<unsigned long>() == PyThread_get_thread_ident()) {
      check_.emplace([last = Clock::now()]() mutable {
        // Another thread may hold the lock for some milliseconds.
        const Clock::time_point now = Clock::now();
        if (now - last < std::chrono::milliseconds(10)) return;
        last = now;
        const py::gil_scoped_acquire lock;
        if (PyErr_CheckSignals() != 0) throw py::error_already_set();
      });
    } else {
      Computing::require_python();
      check_.emplace(&Computing::require_python);
    }
    Computing::begin();
    free_.emplace();
  }
  ~Unlocked() {
    free_.reset();
    Computing::end();
  }
  Unlocked(const Unlocked&) = delete;
  Unlocked& operator=(const Unlocked&) = delete;

private:
  std::optional<StopCheck> check_;
  std::optional<py::gil_scoped_release> free_;
};

/// The result of a computation without the interpreter's lock.
template <class Compute> auto without_lock(Compute&& compute) {
  const Unlocked free;
  return compute();
}

/// Wraps a Python function that gets the finished share of a computation, or None. The caller keeps
/// the function alive during the computation.
inline std::function<void(double)> progress_of(const py::object& function) {
  if (function.is_none()) return {};
  return [called = function.ptr()](double share) {
    const Call call;
    py::reinterpret_borrow<py::object>(called)(share);
  };
}

} // namespace mha::python
