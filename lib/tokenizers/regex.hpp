#pragma once
// The regular expressions of tokenizers, in the dialect that they are written for (Oniguruma).

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace mha::tokenizers {

/// A part of a text: a match of a pattern, or the text between two matches.
struct Match {
  std::size_t begin = 0, end = 0;
  bool found = false;
};

class Regex {
public:
  /// Throws Error for a malformed expression, with Oniguruma's reason, and for one that calls its
  /// own groups, because expanding these may never end.
  explicit Regex(const std::string& expression);

  /// Cuts the whole text into matches and the parts between. Throws Error if the expression takes
  /// too long for the text, by its backtracking steps or by the time.
  std::vector<Match> matches(std::string_view text) const;

private:
  struct Compiled;
  std::shared_ptr<const Compiled> compiled_;
};

} // namespace mha::tokenizers
