#include <mha/render/bench.hpp>

#include <mha/render/table.hpp>

#include <fmt/format.h>

#include <numeric>

namespace mha::render {

namespace {

/// One line per layer; `with_logits` adds one for the logits.
Table layers_table(const PassSpeed& speed, bool with_logits) {
  using In = Table::In;
  using Row = LayerSeconds;
  ColumnsOf<Row> columns{
      {{.title = "layer"}, [](const Row& row) { return Cell::layer(row.layer); }}};
  const auto seconds = [&](std::string title, In in, std::function<double(const Row&)> of) {
    const std::string field = title + "_s";
    columns.push_back({{.title = std::move(title),
                        .right = true,
                        .in = in,
                        .field = field,
                        .eyes = duration_text},
                       [of = std::move(of)](const Row& row) { return Cell::number(of(row)); }});
  };
  seconds("read", In::all, &Row::read_s);
  for (const Phase phase : phases)
    seconds(std::string(name_of_phase(phase)), In::all,
            [phase](const Row& row) { return row.phases[phase]; });
  const auto all = [](const Row& row) {
    return std::accumulate(row.phases.begin(), row.phases.end(), 0.0);
  };
  seconds("all", In::eyes, all), seconds("all", In::lines, all);
  Table table = table_of(speed.layers, columns);
  if (with_logits && speed.logits_s > 0) {
    std::vector<Cell> cells(columns.size());
    cells.front() = "logits", cells.back() = duration_text(speed.logits_s);
    table.add(std::move(cells));
  }
  return table;
}

std::string pass_sentence(const PassSpeed& speed) {
  const double rate = speed.tokens_per_second();
  return fmt::format("the whole pass: median {}, best {} · {} · {} tokens/s · {}",
                     duration_text(speed.median_s), duration_text(speed.best_s),
                     counted(speed.tokens, "tokens"),
                     rate < 1000 ? fmt::format("{:.4g}", rate) : fmt::format("{:.0f}", rate),
                     counted(speed.runs, "runs"));
}

std::string pass_report(const PassSpeed& speed, const TextStyle& text_style) {
  const Table table = layers_table(speed, true);
  std::string text =
      table.text(text_style) + "\n" + roofline_table(speed.roofline, speed.median_s, text_style);
  const std::string pass = pass_sentence(speed);
  text += in_lines(pass, text_style.width) + "\n";
  for (const std::string& line : wrapped("read: the layer is made of the checkpoint's tensors, "
                                         "once, before the runs · around: norms, "
                                         "feed-forward, the stream's sums · all: without read",
                                         text_style.width))
    text += text_style.dim(line) + "\n";
  return text + machine_text(speed.roofline.machine, text_style);
}

std::string pass_json(const PassSpeed& speed) {
  JsonText json;
  json.object([&] {
    json.member("median_s", speed.median_s)
        .member("best_s", speed.best_s)
        .member("runs", speed.runs)
        .member("tokens", speed.tokens)
        .member("tokens_per_s", speed.tokens_per_second())
        .member("logits_s", speed.logits_s);
    put_roofline(json, speed.roofline);
    json.key("layers");
    layers_table(speed, false).put(json, {"\n    ", "\n    ", "\n  "});
  });
  return json.take() + "\n";
}

} // namespace

std::string pass_text(const PassSpeed& speed, std::string_view form, const TextStyle& text_style) {
  if (form == "json") return pass_json(speed);
  if (form == "table") return pass_report(speed, text_style);
  Table table = layers_table(speed, form == "markdown");
  table.note(pass_sentence(speed));
  return table.as(form, text_style);
}

} // namespace mha::render
