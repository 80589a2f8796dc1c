#include <mha/render/bench.hpp>

#include <mha/render/table.hpp>

namespace mha::render {

namespace {

constexpr MemoryLevel places[] = {MemoryLevel::cache_2, MemoryLevel::cache_3, MemoryLevel::memory};

/// Three digits: "1.23", "12.3", "123", "1234".
std::string three_digits(double value) {
  return fmt::format("{:.{}f}", value, value < 9.995 ? 2 : value < 99.95 ? 1 : 0);
}

void put_bandwidths(JsonText& json, const MachineRates& machine, double Bandwidth::*rate) {
  json.object([&] {
    for (const MemoryLevel place : places)
      if (const double bytes = machine.of(place).*rate; bytes > 0)
        json.member(mha::name_of(place), bytes * 1e-9);
  });
}

void put_stage_speed(JsonText& json, const StageSpeed& stage) {
  json.object([&] {
    json.member("seconds", stage.seconds)
        .member("operations", stage.work.operations)
        .member("exponentials", stage.work.exponentials)
        .member("read_bytes", stage.work.read_bytes)
        .member("kept_bytes", stage.kept_bytes);
    if (stage.bound_s > 0)
      json.member("bound_s", stage.bound_s)
          .member("reached", stage.reached())
          .member("bound_by", stage.bound_by);
  });
}

} // namespace

std::string duration_text(double seconds) {
  if (seconds < 0.9995e-6) return three_digits(seconds * 1e9) + " ns";
  if (seconds < 0.9995e-3) return three_digits(seconds * 1e6) + " µs";
  if (seconds < 0.9995) return three_digits(seconds * 1e3) + " ms";
  return three_digits(seconds) + " s";
}

std::string rate_text(double rate) {
  return rate == 0 ? "–" : three_digits(rate * 1e-9);
}

std::string roofline_table(const Roofline& roofline, double all_s, const TextStyle& text_style) {
  Table grid({{"stage"},
              {"time", true},
              {"share", true},
              {"bound", true},
              {"reached", true},
              {"bound by"}});
  double all = 0;
  for (const StageSpeed& stage : roofline.stages) all += stage.seconds;
  for (const StageSpeed& stage : roofline.stages) {
    const double percent = 100 * stage.seconds / all;
    if (percent < 0.5) continue;
    const bool bound = stage.bound_s > 0;
    grid.add({std::string(mha::name_of(stage.stage)), duration_text(stage.seconds),
              fmt::format("{:.0f} %", percent), bound ? duration_text(stage.bound_s) : "–",
              bound ? fmt::format("{:.0f} %", 100 * stage.reached()) : "–", stage.bound_by});
  }
  return grid.empty() ? ""
                      : grid.text(text_style) +
                            in_lines(fmt::format("bound of all stages: {}, {:.0f} % reached",
                                                 duration_text(roofline.bound_s),
                                                 100 * roofline.bound_s / all_s),
                                     text_style.width) +
                            "\n\n";
}

std::string machine_text(const MachineRates& machine, const TextStyle& text_style) {
  std::string text =
      in_lines(fmt::format("exponentials: {} G/s, {:.0f} % of eleven multiply-adds each",
                           rate_text(machine.exponentials),
                           100 * 22 * machine.exponentials / machine.vectors),
               text_style.width) +
      "\n";
  for (const MemoryLevel place : places)
    if (const Bandwidth& bytes = machine.of(place); bytes.read > 0)
      text += fmt::format("{}: {} GB/s read, {} GB/s copied\n", mha::name_of(place),
                          rate_text(bytes.read), rate_text(bytes.copy));
  return text;
}

void put_roofline(JsonText& json, const Roofline& roofline) {
  json.member("bound_s", roofline.bound_s);
  json.key("by_stage").object([&] {
    for (const StageSpeed& stage : roofline.stages)
      json.key(mha::name_of(stage.stage)), put_stage_speed(json, stage);
  });
  const MachineRates& machine = roofline.machine;
  json.key("machine").object([&] {
    json.member("gflops", machine.products * 1e-9)
        .member("vector_gflops", machine.vectors * 1e-9)
        .member("exponentials_per_s", machine.exponentials);
    json.key("read_gb_s"), put_bandwidths(json, machine, &Bandwidth::read);
    json.key("copy_gb_s"), put_bandwidths(json, machine, &Bandwidth::copy);
  });
}

} // namespace mha::render
