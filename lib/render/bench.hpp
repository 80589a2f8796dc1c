#pragma once
// Results of `bench` as text: seconds, and floating-point operations a second.

#include <mha/bench/bench.hpp>
#include <mha/render/text.hpp>

namespace mha::render {

/// A layer and its speed.
struct SpeedRow {
  std::string layer; ///< "" where the layer has no number
  Speed speed;
};

/// One of `result_forms`: a row per layer; of one layer, for eyes, a row per phase (projections,
/// attention, output). As json one object; of several layers an object with one per layer, keyed
/// layers.N.
std::string speeds_text(const std::vector<SpeedRow>& rows, std::string_view form,
                        const TextStyle& text_style);

/// Of a whole pass over a text: a row per layer; for eyes and as json tokens a second, too.
std::string pass_text(const PassSpeed& speed, std::string_view form, const TextStyle& text_style);

} // namespace mha::render
