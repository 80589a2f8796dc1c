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

class Regex {
public:
  /// Throws Error for an expression that is none, with Oniguruma's word for why, and for one that
  /// calls its own groups: what these come to is found by going through all of it.
  explicit Regex(const std::string& expression);

  /// The whole text, cut into what matches and what lies between. Throws Error where the expression
  /// takes too long for the text, which is found by its steps back and by the time.
  std::vector<Match> matches(std::string_view text) const;

private:
  struct Compiled;
  std::shared_ptr<const Compiled> compiled_;
};

} // namespace mha::tokenizers
