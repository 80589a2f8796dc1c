#pragma once
// Results of `bench` as tables and as JSON: seconds, and floating-point operations a second.

#include <mha/bench/bench.hpp>
#include <mha/bench/pass.hpp>
#include <mha/render/text.hpp>

namespace mha::render {

/// A layer and its speed.
struct SpeedRow {
  std::string layer; ///< "" where the layer has no number
  Speed speed;
};

/// Of one layer a row per phase (projections, attention, output); of several a row per layer.
std::string speed_table(const Speed& speed, const TextStyle& text_style);
std::string speed_table(const std::vector<SpeedRow>& rows, const TextStyle& text_style);
/// One object; of several layers an object with one per layer, keyed layers.N.
std::string speed_json(const std::vector<SpeedRow>& rows);

/// Of a whole pass over a text: a row per layer, and tokens a second.
std::string pass_table(const PassSpeed& speed, const TextStyle& text_style);
std::string pass_json(const PassSpeed& speed);

} // namespace mha::render
