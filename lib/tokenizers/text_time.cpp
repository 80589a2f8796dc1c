#include <mha/tokenizers/text_time.hpp>

#include <mha/system/error.hpp>

#include <algorithm>
#include <ctime>

namespace mha::tokenizers {

namespace {

thread_local TextTime* time_of_text = nullptr;

/// Processor time of this thread in seconds.
double processor_seconds() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

TextTime::Clock::duration as_clock(double seconds) {
  return std::chrono::duration_cast<TextTime::Clock::duration>(
      std::chrono::duration<double>(seconds));
}

/// The limit for a text: usual tokenizers take a quarter of it for a million bytes, and less than a
/// tenth for each further byte.
double seconds_for(std::size_t bytes) {
  constexpr std::size_t million = 1'000'000;
  constexpr double for_a_million = 1.4, for_a_byte = 5e-6;
  return for_a_million + for_a_byte * static_cast<double>(std::max(bytes, million) - million);
}

constexpr double seconds_of_file = 0.5; // usual files take some milliseconds

} // namespace

TextTime::TextTime(std::size_t bytes) : TextTime("this text", seconds_for(bytes)) {}

TextTime::TextTime(std::string_view what) : TextTime(what, seconds_of_file) {}

TextTime::TextTime(std::string_view what, double seconds)
    : what_(what),
      seconds_(seconds),
      begun_(processor_seconds()),
      end_(Clock::now() + as_clock(seconds)),
      before_(time_of_text) {
  if (!before_) time_of_text = this;
}

TextTime::~TextTime() {
  time_of_text = before_;
}

TextTime* TextTime::of_text() {
  return time_of_text;
}

bool TextTime::over(Clock::time_point now) {
  // The wall clock is cheaper, and every match checks the time.
  if (now < end_) return false;
  const double seconds = left();
  end_ = now + as_clock(seconds);
  return seconds <= 0;
}

double TextTime::left() const {
  return begun_ + seconds_ - processor_seconds();
}

void TextTime::refuse(std::string_view who, std::string_view why) const {
  fail("the tokenizer's {} takes too long for {}{}; give {}token numbers (<ids>)", who, what_,
       why.empty() ? "" : fmt::format(" ({})", why),
       what_ == "this text" ? "shorter texts, or " : "");
}

void TextTime::count(std::size_t steps, std::string_view who) {
  constexpr std::size_t many = std::size_t{1} << 16; // a few milliseconds
  TextTime* const time = time_of_text;
  if (!time || (time->steps_ += steps) < many) return;
  time->steps_ = 0;
  time->require(who);
}

} // namespace mha::tokenizers
