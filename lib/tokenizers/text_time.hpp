#pragma once
// The time limit of a tokenizer: files can contain patterns and vocabularies that take forever.

#include <chrono>
#include <cstddef>
#include <string>
#include <string_view>

namespace mha::tokenizers {

/// A time limit for the current thread during the lifetime of the object, checked by everything
/// that a file can make long. If another one is alive, that one holds instead.
class TextTime {
public:
  using Clock = std::chrono::steady_clock;

  /// A limit for cutting a text of `bytes` bytes.
  explicit TextTime(std::size_t bytes);
  /// A limit for reading a part of a file: "its added tokens".
  explicit TextTime(std::string_view what);
  /// A limit in seconds of processor time.
  TextTime(std::string_view what, double seconds);
  ~TextTime();
  TextTime(const TextTime&) = delete;
  TextTime& operator=(const TextTime&) = delete;

  /// Whether the processor time of this thread is used up.
  bool over(Clock::time_point now = Clock::now());
  /// Seconds of processor time that are left.
  double left() const;
  /// Throws Error if the time is over: "the tokenizer's WHO takes too long for this text…".
  void require(std::string_view who) {
    if (over()) refuse(who, "");
  }
  /// Throws this Error, with a library's reason or "".
  [[noreturn]] void refuse(std::string_view who, std::string_view why) const;

  /// The limit of this thread, or nullptr.
  static TextTime* of_text();
  /// Counts steps of a search, a few nanoseconds each, and calls require() now and then.
  static void count(std::size_t steps, std::string_view who);

private:
  std::string what_;
  double seconds_;        ///< of processor time, in all
  double begun_;          ///< the thread's processor time at the start
  Clock::time_point end_; ///< the time cannot be over before this
  std::size_t steps_ = 0; ///< since the last check
  TextTime* before_;      ///< the limit that was already alive
};

} // namespace mha::tokenizers
