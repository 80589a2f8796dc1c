#pragma once
// The time that a tokenizer may take: files can say patterns and vocabularies that never end.

#include <chrono>
#include <cstddef>
#include <string>
#include <string_view>

namespace mha::tokenizers {

/// The time for one thing, from when this is made until it goes, for the thread that made it:
/// everything that a file can make long asks for it. Made within another's, it is that one's.
class TextTime {
public:
  using Clock = std::chrono::steady_clock;

  /// For cutting a text of so many bytes.
  explicit TextTime(std::size_t bytes);
  /// For reading what a file says of `what`: "its added tokens".
  explicit TextTime(std::string_view what);
  /// For what takes so many seconds of the processor at most.
  TextTime(std::string_view what, double seconds);
  ~TextTime();
  TextTime(const TextTime&) = delete;
  TextTime& operator=(const TextTime&) = delete;

  /// Whether the time is over. Time in which others had the processor does not count.
  bool over(Clock::time_point now = Clock::now());
  /// Seconds of the processor that are left, none in which others have it.
  double left() const;
  /// Throws Error where the time is over: "the tokenizer's WHO takes too long for this text…".
  void require(std::string_view who) {
    if (over()) refuse(who, "");
  }
  /// The error itself, with a library's word for why, or "".
  [[noreturn]] void refuse(std::string_view who, std::string_view why) const;

  /// Of this thread's text, or nullptr.
  static TextTime* of_text();
  /// Counts steps of a search, a few nanoseconds each; throws Error as require() does.
  static void count(std::size_t steps, std::string_view who);

private:
  std::string what_;
  double seconds_;        ///< of the processor, in all
  double begun_;          ///< the processor's time of this thread
  Clock::time_point end_; ///< before it, none of the time can be over
  std::size_t steps_ = 0; ///< since the clock was looked at
  TextTime* before_;      ///< of a text around this one
};

} // namespace mha::tokenizers
