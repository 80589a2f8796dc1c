#pragma once
// Notes on what is measured of heads: a sink on the first key, separators that are no token.

#include "options.hpp"
#include <mha/heads/measures.hpp>
#include <mha/layer/layer.hpp>

#include <optional>
#include <set>
#include <string>
#include <vector>

namespace mha::app {

/// Mean weight on key 0 of a layer's heads, over the rows that may see more than one key; nothing
/// where a head has fewer than 16 such rows, or where equal weights would lie there as much: short
/// texts have no sink, however many they are.
std::optional<double> weight_on_first_key(const std::vector<HeadMeasures>& heads);

/// Collects weight_on_first_key of each layer, for one note on the layers with a sink.
class SinkNote {
public:
  void add(const std::string& layer, const std::vector<HeadMeasures>& heads);
  /// Prints the note where a layer has more than a third of its weight on key 0, unless --quiet.
  void print(const Common& common) const;

private:
  struct OfLayer {
    std::string layer;
    double share = 0;
  };
  std::vector<OfLayer> sinks_;
  std::size_t layers_ = 0;
};

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
