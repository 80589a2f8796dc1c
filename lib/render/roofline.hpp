#pragma once
// Stages beside the least that they can take: for eyes, and as JSON.

#include <mha/bench/roofline.hpp>
#include <mha/render/json_text.hpp>
#include <mha/render/text.hpp>

namespace mha::render {

/// A row a stage, of those that take half a percent of the time or more: its time, its bound, the
/// share reached; below it the bound of all beside `all_s`. Empty where no stage took any time.
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
