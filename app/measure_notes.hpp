#pragma once
// Notes on measured heads: a sink on the first key, separators that match no token.

#include "options.hpp"
#include <mha/heads/measures.hpp>
#include <mha/layer/layer.hpp>

#include <optional>
#include <set>
#include <string>
#include <vector>

namespace mha::app {

/// The mean weight on key 0 of a layer's heads, over rows that may attend to more than one key.
/// Nothing if a head has fewer than 16 such rows, or if uniform weights would give key 0 as much:
/// short texts have no sink, however many they are.
std::optional<double> weight_on_first_key(const std::vector<HeadMeasures>& heads);

/// Collects weight_on_first_key() of each layer for one note on the layers with a sink.
class SinkNote {
public:
  void add(const std::string& layer, const std::vector<HeadMeasures>& heads);
  /// Prints the note if a layer has more than a third of its weight on key 0, unless --quiet.
  void print(const Common& common) const;

private:
  struct LayerSink {
    std::string layer;
    double share = 0;
  };
  std::vector<LayerSink> sinks_;
  std::size_t layers_ = 0;
};

/// Finds which of the words of --separators occur as labels of keys.
class SeparatorWords {
public:
  explicit SeparatorWords(std::vector<std::string> words) : words_(std::move(words)) {}
  void search(const Layer& layer);
  /// A warning that names the words that match no key, or "".
  std::string missing() const;

private:
  std::vector<std::string> words_;
  std::set<std::string> found_;
};

} // namespace mha::app
