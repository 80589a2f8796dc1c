#include <mha/render/bench.hpp>

#include <mha/render/json_text.hpp>
#include <mha/render/roofline.hpp>
#include <mha/render/table.hpp>

#include <fmt/format.h>

#include <numeric>

namespace mha::render {

std::string pass_table(const PassSpeed& speed, const TextStyle& text_style) {
  std::vector<Table::Column> columns{{"layer"}, {"read", true}};
  for (const Phase phase : phases) columns.push_back({std::string(name_of_phase(phase)), true});
  columns.push_back({"all", true});
  Table table(std::move(columns));
  const auto add = [&](const LayerSeconds& layer) {
    std::vector<std::string> row{visible(layer.layer), duration_text(layer.read_s)};
    for (const double seconds : layer.phases) row.push_back(duration_text(seconds));
    row.push_back(duration_text(std::accumulate(layer.phases.begin(), layer.phases.end(), 0.0)));
    table.add(std::move(row));
  };
  for (const LayerSeconds& layer : speed.layers) add(layer);
  if (speed.logits_s > 0) table.add({"logits", "", "", "", "", "", duration_text(speed.logits_s)});
  std::string text =
      table.text(text_style) + "\n" + roofline_table(speed.roofline, speed.median_s, text_style);
  const double rate = speed.tokens_per_second();
  const std::string pass = fmt::format(
      "the whole pass: median {}, best {} · {} · {} tokens/s · {}", duration_text(speed.median_s),
      duration_text(speed.best_s), counted(speed.tokens, "tokens"),
      rate < 1000 ? fmt::format("{:.4g}", rate) : fmt::format("{:.0f}", rate),
      counted(speed.runs, "runs"));
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
    json.key("layers").list(speed.layers,
                            [&](const LayerSeconds& layer) {
                              json.object([&] {
                                json.key("layer").layer(layer.layer);
                                json.member("read_s", layer.read_s);
                                for (const Phase phase : phases)
                                  json.member(fmt::format("{}_s", name_of_phase(phase)),
                                              layer.phases[phase]);
                              });
                            },
                            {"\n    ", "\n    ", "\n  "});
  });
  return json.take() + "\n";
}

} // namespace mha::render
