#include <mha/render/bench.hpp>

#include <mha/render/table.hpp>
#include <mha/system/words.hpp>

#include <algorithm>

namespace mha::render {

namespace {

std::string fraction_text(double rate, double peak_rate) {
  return rate == 0 ? "–" : fmt::format("{:.1f} %", 100 * rate / peak_rate);
}

/// The runs, threads and peak rate that the numbers above are based on.
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

std::string speed_report(const Speed& speed, const TextStyle& text_style) {
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

/// One line per layer.
Table speeds_table(const std::vector<SpeedRow>& rows) {
  using Row = SpeedRow;
  const auto seconds = [](std::string title, std::string field, auto of) {
    return ColumnOf<Row>{{.title = std::move(title),
                          .right = true,
                          .field = std::move(field),
                          .eyes = duration_text},
                         [of](const Row& row) { return Cell::number(of(row.speed)); }};
  };
  const auto number = [&](std::string title, auto of) {
    return ColumnOf<Row>{field_column(std::move(title)),
                         [of](const Row& row) { return Cell::number(of(row.speed)); }};
  };
  const auto phase = [&](Phase one) {
    const std::string name(name_of_phase(one));
    return seconds(name, name + "_s",
                   [one](const Speed& speed) { return speed.phases[one].median_s; });
  };
  const auto fraction = [](const Speed& speed) {
    return speed.all.rate() / speed.roofline.machine.products;
  };
  return table_of(
      rows,
      ColumnsOf<Row>{
          {{.title = "layer"}, [](const Row& row) { return Cell::layer(row.layer); }},
          seconds("median", "median_s", [](const Speed& speed) { return speed.all.median_s; }),
          seconds("best", "best_s", [](const Speed& speed) { return speed.all.best_s; }),
          {{.title = "GFLOP/s", .right = true, .field = "gflops"},
           [](const Row& row) {
             const double rate = row.speed.all.rate();
             return Cell::number(rate * 1e-9).shown_as(rate_text(rate));
           }},
          {{.title = "of the peak", .right = true, .field = "peak_fraction"},
           [=](const Row& row) {
             const double peak = row.speed.roofline.machine.products;
             return Cell::number(fraction(row.speed))
                 .shown_as(fmt::format("{} of {}", fraction_text(row.speed.all.rate(), peak),
                                       rate_text(peak)));
           }},
          phase(Phase::projections),
          phase(Phase::attention),
          phase(Phase::output),
          {{.title = "runs", .right = true},
           [](const Row& row) { return Cell::count(row.speed.runs); }},
          {field_column("threads"), [](const Row& row) { return Cell::count(row.speed.threads); }},
          number("operations", [](const Speed& speed) { return speed.all.operations; }),
          number("peak_gflops",
                 [](const Speed& speed) { return speed.roofline.machine.products * 1e-9; }),
          {field_column("unit"),
           [](const Row& row) { return Cell(row.speed.roofline.machine.unit); }}});
}

std::string speeds_json(const std::vector<SpeedRow>& rows) {
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

} // namespace

std::string speeds_text(const std::vector<SpeedRow>& rows, std::string_view form,
                        const TextStyle& text_style) {
  if (form == "json") return speeds_json(rows);
  if (form == "table" && rows.size() == 1) return speed_report(rows[0].speed, text_style);
  return speeds_table(rows).as(form, text_style);
}

} // namespace mha::render
