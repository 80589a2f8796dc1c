#pragma once
// --separators: words that no token is.

#include <mha/layer/layer.hpp>

#include <set>
#include <string>
#include <vector>

namespace mha::app {

/// Which of some words are labels of keys in the layers that it looks at.
class SeparatorWords {
public:
  explicit SeparatorWords(std::vector<std::string> words) : words_(std::move(words)) {}
  void look_at(const Layer& layer);
  /// A warning that names the words that no key has, and that count nothing; "": all are some.
  std::string missing() const;

private:
  std::vector<std::string> words_;
  std::set<std::string> found_;
};

} // namespace mha::app
