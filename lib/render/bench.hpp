#pragma once
// Results of `bench`: for eyes, and as JSON.

#include <mha/bench/bench.hpp>
#include <mha/bench/pass.hpp>
#include <mha/render/text.hpp>

namespace mha::render {

/// A layer and its speed.
struct SpeedRow {
  std::string layer; ///< "" where the layer has no number
  Speed speed;
};

/// One layer: a row a part. Several: a row a layer.
std::string speed_table(const Speed& speed, const TextStyle& look);
std::string speed_table(const std::vector<SpeedRow>& rows, const TextStyle& look);
/// One object; of several layers one keyed by layers.N.
std::string speed_json(const std::vector<SpeedRow>& rows);

/// A whole pass over a text: a row a layer, and tokens a second.
std::string pass_table(const PassSpeed& speed, const TextStyle& look);
std::string pass_json(const PassSpeed& speed);

} // namespace mha::render
