#include <mha/render/bench.hpp>

#include <mha/render/grid.hpp>
#include <mha/render/numbers.hpp>

namespace mha::render {

namespace {

/// Three digits: "1.23", "12.3", "123", "1234".
std::string three_digits(double value) {
  return fmt::format("{:.{}f}", value, value < 9.995 ? 2 : value < 99.95 ? 1 : 0);
}

std::string duration(double seconds) {
  if (seconds < 0.9995e-3) return three_digits(seconds * 1e6) + " µs";
  if (seconds < 0.9995) return three_digits(seconds * 1e3) + " ms";
  return three_digits(seconds) + " s";
}

std::string rate_text(double rate) {
  return rate == 0 ? "–" : three_digits(rate * 1e-9);
}

std::string fraction_text(double rate, double peak_rate) {
  return rate == 0 ? "–" : fmt::format("{:.1f} %", 100 * rate / peak_rate);
}

/// What the numbers above it mean.
std::string legend(const Speed& speed, std::string_view runs) {
  std::string kept;
  for (Stage stage : speed.kept) kept += (kept.empty() ? "" : ", ") + std::string(name_of(stage));
  return fmt::format("{} · {} thread{} · kept: {}\n"
                     "peak of {} multiply-adds ({}): {} GFLOP/s, measured between the runs\n",
                     runs, speed.threads, speed.threads == 1 ? "" : "s", kept,
                     mha::name_of(speed.dtype), speed.unit, rate_text(speed.peak_rate));
}

std::string runs_text(std::size_t runs) {
  return fmt::format("{} run{}", runs, runs == 1 ? "" : "s");
}

std::string json_number(double value) {
  std::string text;
  NumberWriter(Dialect::json, std::nullopt).append(text, value);
  return text;
}

std::string object(const Speed& speed) {
  std::string kept;
  for (Stage stage : speed.kept)
    kept += (kept.empty() ? "" : ", ") + json_quoted(mha::name_of(stage));
  return fmt::format(
      "{{\"median_s\": {}, \"best_s\": {}, \"runs\": {}, \"threads\": {}, \"operations\": {}, "
      "\"gflops\": {}, \"peak_gflops\": {}, \"peak_fraction\": {}, "
      "\"unit\": {}, \"parts\": {{\"projections\": {}, \"attention\": {}, \"output\": {}}}, "
      "\"stages\": [{}]}}",
      json_number(speed.all.median_s), json_number(speed.all.best_s), speed.runs, speed.threads,
      json_number(speed.all.operations), json_number(speed.all.rate() * 1e-9),
      json_number(speed.peak_rate * 1e-9), json_number(speed.all.rate() / speed.peak_rate),
      json_quoted(speed.unit), json_number(speed.projections.median_s),
      json_number(speed.attention.median_s), json_number(speed.output.median_s), kept);
}

} // namespace

std::string speed_table(const Speed& speed, const Look& look) {
  Grid grid({{"part"}, {"median", true}, {"best", true}, {"GFLOP/s", true}, {"of the peak", true}});
  const auto add = [&](const char* name, const PhaseSpeed& part) {
    grid.add({name, duration(part.median_s), duration(part.best_s), rate_text(part.rate()),
              fraction_text(part.rate(), speed.peak_rate)});
  };
  add("projections", speed.projections);
  add("attention", speed.attention);
  add("output", speed.output);
  add("all", speed.all);
  return grid.text(look) + "\n" + legend(speed, runs_text(speed.runs));
}

std::string speed_table(const std::vector<SpeedRow>& rows, const Look& look) {
  Grid grid({{"layer"},
             {"median", true},
             {"best", true},
             {"GFLOP/s", true},
             {"of the peak", true},
             {"projections", true},
             {"attention", true},
             {"output", true},
             {"runs", true}});
  for (const auto& [layer, speed] : rows)
    grid.add({visible(layer), duration(speed.all.median_s), duration(speed.all.best_s),
              rate_text(speed.all.rate()),
              fmt::format("{} of {}", fraction_text(speed.all.rate(), speed.peak_rate),
                          rate_text(speed.peak_rate)),
              duration(speed.projections.median_s), duration(speed.attention.median_s),
              duration(speed.output.median_s), std::to_string(speed.runs)});
  return grid.text(look);
}

std::string speed_json(const std::vector<SpeedRow>& rows) {
  if (rows.size() == 1) return object(rows[0].speed) + "\n";
  std::string out = "{\n";
  for (std::size_t i = 0; i < rows.size(); ++i)
    out += fmt::format("{}: {}{}\n", json_quoted("layers." + rows[i].layer), object(rows[i].speed),
                       i + 1 < rows.size() ? "," : "");
  return out + "}\n";
}

} // namespace mha::render
