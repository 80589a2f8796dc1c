#pragma once
// Results of `bench` as text: seconds, floating-point operations a second, and stages beside the
// least time that they can take.

#include <mha/bench/bench.hpp>
#include <mha/bench/roofline.hpp>
#include <mha/render/json_text.hpp>
#include <mha/render/text.hpp>

namespace mha::render {

/// A layer and its speed.
struct SpeedRow {
  std::string layer; ///< "" where the layer has no number
  Speed speed;
};

/// One of `result_forms`: a row per layer; of one layer, for readers, a row per phase (projections,
/// attention, output). As json one object; of several layers an object with one per layer, keyed
/// layers.N.
std::string speeds_text(const std::vector<SpeedRow>& rows, std::string_view form,
                        const TextStyle& text_style);

/// A pass of a whole model with a text: a row per layer; in tables and JSON also tokens a second.
std::string pass_text(const PassSpeed& speed, std::string_view form, const TextStyle& text_style);

/// One row per stage, of those that take half a percent of the time or more: its time, its bound,
/// the share reached; below it the bound of all beside `all_s`. Empty where no stage took any time.
std::string roofline_table(const Roofline& roofline, double all_s, const TextStyle& text_style);
/// A line for the exponential, one for each place whose bandwidth was measured.
std::string machine_text(const MachineRates& machine, const TextStyle& text_style);
/// The members bound_s, by_stage and machine of an object.
void put_roofline(JsonText& json, const Roofline& roofline);

/// "1.23 ms", "45.6 µs".
std::string duration_text(double seconds);
/// 10⁹ a second, three digits: "1.23"; "–" for 0.
std::string rate_text(double rate);

} // namespace mha::render
