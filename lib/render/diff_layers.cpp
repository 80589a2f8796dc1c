#include <mha/render/diff.hpp>

#include <mha/render/diff_parts.hpp>

#include <fmt/format.h>

#include <algorithm>

namespace mha::render {

namespace {

std::string ratio_text(const LayerLine& line) {
  return line.rms > 0 ? fmt::format("{:.2g}", line.max_abs / line.rms) : "–";
}

std::string verdict_of(const Diff& diff) {
  if (diff.first || diff.by_itself) return "differs";
  if (diff.follows) return diff.sound ? "follows" : "follows?";
  const auto all = [&](const auto& holds) {
    return std::all_of(diff.stages.begin(), diff.stages.end(), holds);
  };
  if (all([](const StageDiff& row) {
        return row.status == DiffStatus::equal || row.status == DiffStatus::same;
      }))
    return "equal";
  return all([](const StageDiff& row) { return row.difference.within; }) ? "close" : "rounding";
}

std::string layer_name(const LayerLine& line) {
  return line.layer.empty() ? "the model's end" : "layer " + line.layer;
}

/// How far the error grows, as a share of the stream's rms, over the layers that were compared.
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

/// The verdict where all agrees. A reference may have some layers alone; the model's end is not
/// one.
std::string agreement_of(const std::vector<LayerLine>& lines, std::size_t asked_for,
                         const Coverage& coverage) {
  if (coverage.has_misshapen())
    return fmt::format(
        "{}; steps of the reference have another shape, which counts as a difference.",
        lines.empty() ? "Nothing was compared" : "What was compared agrees");
  if (coverage.lacks_steps())
    return fmt::format(
        "{}; other steps of the reference were not compared, so this is not agreement.",
        lines.empty() ? "Nothing was compared" : "What was compared agrees");
  const bool end = lines.back().layer.empty();
  const std::size_t layers = lines.size() - (end ? 1 : 0);
  if (layers == asked_for) return "Every layer agrees.";
  if (layers == 0) return "The model's end agrees; the reference has no layers.";
  return fmt::format("The {} that the reference has agree{}{}.",
                     layers == 1 ? "layer" : fmt::format("{} layers", layers),
                     layers == 1 ? "s" : "", end ? ", and the model's end does" : "");
}

/// Of more layers than a screen has lines, equal ones are put together.
constexpr std::size_t most_lines = 16;

bool same_result(const LayerLine& a, const LayerLine& b) {
  return !a.layer.empty() && a.stages == b.stages && a.verdict == b.verdict && a.stage == b.stage;
}

/// What is known about the layers after the first that differs.
std::string after_first(const std::vector<LayerLine>& lines, const LayerLine& first) {
  std::vector<std::pair<Stage, std::vector<std::string>>> places; // layers with one stage wrong
  bool sound = false, unknown = false;
  std::size_t count = 0;
  for (const LayerLine* line = &first + 1; line < lines.data() + lines.size(); ++line) {
    const bool again = line->stage == Stage::embed && first.stage == Stage::resid_pre;
    if (line->by_itself && !again) {
      if (places.empty() || places.back().first != line->stage || line->layer.empty())
        places.emplace_back(line->stage, std::vector<std::string>{});
      places.back().second.push_back(line->layer);
      ++count;
    }
    sound = sound || line->verdict == "follows";
    unknown = unknown || line->verdict == "follows?";
  }
  std::string text;
  std::vector<std::string> wrong;
  for (const auto& [stage, layers] : places)
    wrong.push_back(fmt::format("{} (in {})",
                                layers[0].empty()    ? "the model's end"
                                : layers.size() == 1 ? "layer " + layers[0]
                                                     : "layers " + ranges_of(layers),
                                mha::name_of(stage)));
  if (!wrong.empty())
    text += fmt::format(" Computed from the reference's own stream, {} also {}.", joined(wrong),
                        count == 1 ? "differs by itself" : "differ by themselves");
  if (sound)
    text += wrong.empty() ? " What follows is sound: computed from the reference's own stream, it "
                            "agrees."
                          : " The others that follow are sound.";
  if (unknown)
    text += " Where the verdict is follows?, the reference has no stream before the layer, which "
            "would show whether it is wrong by itself.";
  return text;
}

/// The line whose distance from float64 is reported: the first layer that differs, or the farthest.
const LayerLine* layer_from_exact(const std::vector<LayerLine>& lines, const LayerLine* first) {
  if (first) return first->exact ? first : nullptr;
  const LayerLine* exact_line = nullptr;
  for (const LayerLine& line : lines)
    if (line.exact && (!exact_line || line.exact->ratio > exact_line->exact->ratio))
      exact_line = &line;
  return exact_line;
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
  line.by_itself = diff.by_itself.has_value();
  if (const std::optional<Stage> wrong = diff.first ? diff.first : diff.by_itself)
    for (const StageDiff& row : diff.stages)
      if (row.stage == *wrong) shown = &row;
  if (!shown) return line;
  line.stage = shown->stage;
  line.max_abs = shown->difference.max_abs, line.rms = shown->difference.rms;
  line.exact = shown->exact, line.precision = shown->precision;
  return line;
}

std::string layers_table(const std::vector<LayerLine>& lines, std::size_t asked_for,
                         const Coverage& coverage, const TextStyle& text_style) {
  const bool exact =
      std::ranges::any_of(lines, [](const LayerLine& line) { return line.exact.has_value(); });
  std::vector<Table::Column> columns{{"layer"},   {"stages", true},  {""},
                                     {"of them"}, {"max abs", true}, {"of its rms", true}};
  if (exact) std::ranges::copy(exact_columns(), std::back_inserter(columns));
  Table grid(std::move(columns));
  const LayerLine* first = nullptr;
  bool rounding = false;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const LayerLine& line = lines[i];
    const bool differs = line.verdict == "differs";
    if (differs && !first) first = &line;
    rounding = rounding || line.verdict == "rounding";
    // In a long table, neighbouring layers with the same result are one line, with the last one's
    // numbers.
    std::size_t last = i;
    while (lines.size() > most_lines && last + 1 < lines.size() && !differs &&
           same_result(lines[last + 1], line))
      ++last;
    const LayerLine& shown = lines[last];
    std::string name = line.layer.empty() ? "model" : visible(line.layer);
    if (last > i) name += "–" + visible(shown.layer);
    std::vector<std::string> cells{std::move(name),
                                   std::to_string(line.stages),
                                   line.verdict,
                                   std::string(mha::name_of(line.stage)),
                                   fmt::format("{:.2g}", shown.max_abs),
                                   ratio_text(shown)};
    if (exact) std::ranges::copy(exact_cells(shown.exact), std::back_inserter(cells));
    for (std::string& cell : cells)
      if (differs) cell = text_style.bold(cell);
    grid.add(std::vector<Cell>(cells.begin(), cells.end()));
    i = last;
  }
  std::string text = first
                         ? fmt::format("{} is the first that differs, in {}.{}", layer_name(*first),
                                       mha::name_of(first->stage), after_first(lines, *first))
                         : agreement_of(lines, asked_for, coverage) + growth(lines);
  if (const LayerLine* exact_line = layer_from_exact(lines, first))
    text += " " + exact_sentence(fmt::format("{} of {}", mha::name_of(exact_line->stage),
                                             layer_name(*exact_line)),
                                 *exact_line->exact);
  if (rounding)
    text +=
        " Where the verdict is rounding, the elements outside the tolerance are off by no "
        "more than a pass in this precision differs from one in float64, which grows from layer "
        "to layer.";
  std::string out = grid.text(text_style) + "\n";
  for (const std::string& line : wrapped(text, text_style.width)) out += line + "\n";
  return out;
}

} // namespace mha::render
