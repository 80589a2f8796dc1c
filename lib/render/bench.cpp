#include <mha/render/bench.hpp>

#include <mha/render/json_text.hpp>
#include <mha/render/roofline.hpp>
#include <mha/render/table.hpp>
#include <mha/system/words.hpp>

#include <algorithm>

namespace mha::render {

namespace {

std::string fraction_text(double rate, double peak_rate) {
  return rate == 0 ? "–" : fmt::format("{:.1f} %", 100 * rate / peak_rate);
}

/// What the numbers above it mean.
std::string speed_legend(const Speed& speed, std::string_view runs, const TextStyle& text_style) {
  const std::string how = fmt::format("{} · {} · kept: {}", runs, counted(speed.threads, "threads"),
                                      joined_names(speed.kept)),
                    peak = fmt::format(
                        "peak of {} multiply-adds ({}): {} GFLOP/s, measured between the runs",
                        mha::name_of(speed.dtype), speed.roofline.machine.unit,
                        rate_text(speed.roofline.machine.products));
  return in_lines(how, text_style.width) + "\n" + in_lines(peak, text_style.width) + "\n";
}

void put_speed(JsonText& json, const Speed& speed) {
  json.object([&] {
    json.member("median_s", speed.all.median_s)
        .member("best_s", speed.all.best_s)
        .member("runs", speed.runs)
        .member("threads", speed.threads)
        .member("operations", speed.all.operations)
        .member("gflops", speed.all.rate() * 1e-9)
        .member("peak_gflops", speed.roofline.machine.products * 1e-9)
        .member("peak_fraction", speed.all.rate() / speed.roofline.machine.products)
        .member("unit", speed.roofline.machine.unit);
    json.key("parts").object([&] {
      for (const Phase phase : phases)
        if (speed.has(phase)) json.member(name_of_phase(phase), speed.phases[phase].median_s);
    });
    json.key("stage_seconds").object([&] { // of all workers together
      for (const StageSpeed& stage : speed.roofline.stages)
        json.member(mha::name_of(stage.stage), stage.seconds * static_cast<double>(speed.threads));
    });
    put_roofline(json, speed.roofline);
    json.key("stages").list(speed.kept, [&](Stage stage) { json.value(mha::name_of(stage)); });
  });
}

} // namespace

std::string speed_table(const Speed& speed, const TextStyle& text_style) {
  Table grid(
      {{"part"}, {"median", true}, {"best", true}, {"GFLOP/s", true}, {"of the peak", true}});
  const auto add = [&](std::string_view name, const PhaseSpeed& of) {
    grid.add({std::string(name), duration_text(of.median_s), duration_text(of.best_s),
              rate_text(of.rate()), fraction_text(of.rate(), speed.roofline.machine.products)});
  };
  for (const Phase phase : phases)
    if (speed.has(phase)) add(name_of_phase(phase), speed.phases[phase]);
  add("all", speed.all);
  return grid.text(text_style) + "\n" +
         roofline_table(speed.roofline, speed.all.median_s, text_style) +
         speed_legend(speed, counted(speed.runs, "runs"), text_style) +
         machine_text(speed.roofline.machine, text_style);
}

std::string speed_table(const std::vector<SpeedRow>& rows, const TextStyle& text_style) {
  Table grid({{"layer"},
                  {"median", true},
                  {"best", true},
                  {"GFLOP/s", true},
                  {"of the peak", true},
                  {"projections", true},
                  {"attention", true},
                  {"output", true},
                  {"runs", true}});
  for (const auto& [layer, speed] : rows)
    grid.add(
        {visible(layer), duration_text(speed.all.median_s), duration_text(speed.all.best_s),
         rate_text(speed.all.rate()),
         fmt::format("{} of {}", fraction_text(speed.all.rate(), speed.roofline.machine.products),
                     rate_text(speed.roofline.machine.products)),
         duration_text(speed.phases[Phase::projections].median_s),
         duration_text(speed.phases[Phase::attention].median_s),
         duration_text(speed.phases[Phase::output].median_s), std::to_string(speed.runs)});
  return grid.text(text_style);
}

std::string speed_json(const std::vector<SpeedRow>& rows) {
  JsonText json;
  if (rows.size() == 1)
    put_speed(json, rows[0].speed);
  else
    json.object(
        [&] {
          for (const SpeedRow& row : rows)
            json.key("layers." + row.layer), put_speed(json, row.speed);
        },
        on_lines);
  return json.take() + "\n";
}

} // namespace mha::render
