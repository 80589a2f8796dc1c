#pragma once
// The regular expressions of tokenizers, in the dialect that they are written for (Oniguruma).

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace mha::tokenizers {

/// A stretch of a text: what a pattern found, or what lies between.
struct Match {
  std::size_t begin = 0, end = 0;
  bool found = false;
};

/// The time that patterns may take for a text of so many bytes, all of them together: from when
/// this is made until it goes, for the thread that made it.
class PatternTime {
public:
  explicit PatternTime(std::size_t bytes);
  ~PatternTime();
  PatternTime(const PatternTime&) = delete;
  PatternTime& operator=(const PatternTime&) = delete;

  /// Takes seconds from what is left; false where nothing is.
  bool spend(double seconds) { return (left_ -= seconds) >= 0; }
  double left() const { return left_; }
  /// Of this thread's text, or nullptr.
  static PatternTime* of_text();

private:
  double left_; ///< seconds
  PatternTime* before_;
};

class Regex {
public:
  /// Throws Error for an expression that is none, with Oniguruma's word for why.
  explicit Regex(const std::string& expression);

  /// The whole text, cut into what matches and what lies between. Throws Error where the expression
  /// takes too long for the text: in one match by its steps back, in all by the time.
  std::vector<Match> matches(std::string_view text) const;

private:
  struct Compiled;
  std::shared_ptr<const Compiled> compiled_;
};

} // namespace mha::tokenizers
