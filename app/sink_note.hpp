#pragma once
// A note where heads rest on the first key.

#include "options.hpp"
#include <mha/heads/measures.hpp>

#include <optional>
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

} // namespace mha::app
