#include <mha/render/bench.hpp>

#include <mha/render/grid.hpp>
#include <mha/render/json_text.hpp>

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
std::string speed_legend(const Speed& speed, std::string_view runs) {
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

void put(JsonText& json, const Speed& speed) {
  json.object([&] {
    json.member("median_s", speed.all.median_s)
        .member("best_s", speed.all.best_s)
        .member("runs", speed.runs)
        .member("threads", speed.threads)
        .member("operations", speed.all.operations)
        .member("gflops", speed.all.rate() * 1e-9)
        .member("peak_gflops", speed.peak_rate * 1e-9)
        .member("peak_fraction", speed.all.rate() / speed.peak_rate)
        .member("unit", speed.unit);
    json.key("parts").object([&] {
      json.member("projections", speed.projections.median_s)
          .member("attention", speed.attention.median_s)
          .member("output", speed.output.median_s);
    });
    json.key("stages").list(speed.kept, [&](Stage stage) { json.value(mha::name_of(stage)); });
  });
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
  return grid.text(look) + "\n" + speed_legend(speed, runs_text(speed.runs));
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
  JsonText json;
  if (rows.size() == 1)
    put(json, rows[0].speed);
  else
    json.object(
        [&] {
          for (const SpeedRow& row : rows) json.key("layers." + row.layer), put(json, row.speed);
        },
        on_lines);
  return json.take() + "\n";
}

} // namespace mha::render
