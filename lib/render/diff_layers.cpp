#include <mha/render/diff_layers.hpp>

#include <mha/render/grid.hpp>

#include <fmt/format.h>

#include <algorithm>

namespace mha::render {

namespace {

std::string ratio_text(const LayerLine& line) {
  return line.rms > 0 ? fmt::format("{:.2g}", line.max_abs / line.rms) : "–";
}

std::string verdict_of(const Diff& diff) {
  if (diff.first) return "differs";
  if (diff.follows) return "follows";
  const auto all = [&](const auto& holds) {
    return std::all_of(diff.stages.begin(), diff.stages.end(), holds);
  };
  if (all([](const StageDiff& row) { return row.status == DiffStatus::equal; })) return "equal";
  return all([](const StageDiff& row) { return row.difference.within; }) ? "close" : "rounding";
}

std::string layer_name(const LayerLine& line) {
  return line.layer.empty() ? "the model's end" : "layer " + line.layer;
}

/// Of layers whose stream was compared: from how much to how much of its rms the error grows.
std::string growth(const std::vector<LayerLine>& lines) {
  std::vector<const LayerLine*> stream;
  for (const LayerLine& line : lines)
    if (line.stage == Stage::resid_post && line.rms > 0) stream.push_back(&line);
  if (stream.size() < 2) return "";
  return fmt::format(
      " The stream's largest difference goes from {} to {} of its rms, layer {} to {}.",
      ratio_text(*stream.front()), ratio_text(*stream.back()), stream.front()->layer,
      stream.back()->layer);
}

/// A reference may have some layers alone; the model's end is none.
std::string agreement_of(const std::vector<LayerLine>& lines, std::size_t asked_for) {
  const bool end = lines.back().layer.empty();
  const std::size_t layers = lines.size() - (end ? 1 : 0);
  if (layers == asked_for) return "Every layer agrees.";
  if (layers == 0) return "The model's end agrees; the reference has no layers.";
  return fmt::format("The {} that the reference has agree{}{}.",
                     layers == 1 ? "layer" : fmt::format("{} layers", layers),
                     layers == 1 ? "s" : "", end ? ", and the model's end does" : "");
}

} // namespace

LayerLine line_of(const std::string& layer, const Diff& diff) {
  LayerLine line;
  line.layer = layer, line.stages = diff.stages.size(), line.verdict = verdict_of(diff);
  const StageDiff* shown = nullptr;
  for (const StageDiff& row : diff.stages) {
    if (shown && shown->stage == Stage::resid_post) continue;
    shown = &row;
  }
  if (diff.first)
    for (const StageDiff& row : diff.stages)
      if (row.stage == *diff.first) shown = &row;
  if (!shown) return line;
  line.stage = shown->stage;
  line.max_abs = shown->difference.max_abs, line.rms = shown->difference.rms;
  return line;
}

std::string layers_table(const std::vector<LayerLine>& lines, std::size_t asked_for,
                         const Look& look) {
  Grid grid(
      {{"layer"}, {"stages", true}, {""}, {"of them"}, {"max abs", true}, {"of its rms", true}});
  const LayerLine* first = nullptr;
  bool rounding = false;
  for (const LayerLine& line : lines) {
    const bool differs = line.verdict == "differs";
    if (differs && !first) first = &line;
    rounding = rounding || line.verdict == "rounding";
    std::vector<std::string> cells{line.layer.empty() ? "model" : visible(line.layer),
                                   std::to_string(line.stages),
                                   line.verdict,
                                   std::string(mha::name_of(line.stage)),
                                   fmt::format("{:.2g}", line.max_abs),
                                   ratio_text(line)};
    for (std::string& cell : cells)
      if (differs) cell = look.bold(cell);
    grid.add(std::move(cells));
  }
  std::string text =
      first
          ? fmt::format("{} is the first that differs, in {}; what follows from it is not judged.",
                        layer_name(*first), mha::name_of(first->stage))
          : agreement_of(lines, asked_for) + growth(lines);
  if (rounding)
    text += " Where rounding is said, elements are outside the tolerance by no more than a pass in "
            "this precision is from one in float64: it grows from layer to layer.";
  std::string out = grid.text(look) + "\n";
  for (const std::string& line : wrapped(text, look.width)) out += line + "\n";
  return out;
}

} // namespace mha::render
