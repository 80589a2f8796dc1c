// The commands that `diff` prints below a difference.

#include "diff_run.hpp"
#include "retype.hpp"
#include <mha/layer/graph.hpp>
#include <mha/load/source.hpp>
#include <mha/naming/stage_names.hpp>
#include <mha/system/words.hpp>

#include <fmt/format.h>

#include <algorithm>

namespace mha::app {

namespace {

/// The place of an element as options of a selection: " --batch 0 --head 2 --query 17".
struct ShownPlace {
  std::string options;
  bool query = false;
};

/// `alone`: the stage is shown without its layer, so that key/value heads have their own numbers.
ShownPlace place_of(const Layer& layer, const StageDiff& row, bool alone) {
  ShownPlace place;
  std::vector<Dim> letters = info_of(row.stage).letters;
  if (letters == std::vector{Dim::H, Dim::H}) return place; // a matrix of heads
  if (layer.settings.columns && info_of(row.stage).kind != Kind::row)
    std::swap(letters.end()[-1], letters.end()[-2]);
  std::size_t axis = 0;
  if (layer.dims.batched) place.options += fmt::format(" --batch {}", row.difference.at[axis++]);
  for (Dim letter : letters) {
    const std::size_t i = row.difference.at[axis++];
    const Axis what = axis_of(letter);
    if (what == Axis::head) place.options += fmt::format(" --head {}", i);
    if (what == Axis::kv_head)
      place.options += fmt::format(" --head {}", alone ? i : i * layer.dims.group());
    if (what == Axis::query) place.options += fmt::format(" --query {}", i), place.query = true;
    if (what == Axis::key && !place.query) place.options += fmt::format(" --key {}", i);
  }
  return place;
}

/// Whether a source binds the stage, so that any command uses the given values.
bool is_bound(const RunRequest& request, Stage stage) {
  return std::ranges::any_of(request.sources, [&](const std::string& text) {
    const io::Source source = io::parse_source(text);
    if (source.name.empty()) return false;
    const std::optional<Stage> meant = find_stage(source.name);
    return meant == stage || (source.name == "Q" && stage == Stage::q) ||
           (source.name == "K" && stage == Stage::k) || (source.name == "V" && stage == Stage::v);
  });
}

/// A binding of a stage that was found in a file, or "".
std::string bound_alone(const LoadedLayer& loaded, Stage stage) {
  for (const Origin& origin : loaded.origins) {
    const std::size_t tensor = origin.source.rfind(": ");
    if (find_stage(origin.name) == stage && tensor != std::string::npos)
      return fmt::format("{}={}:{}", mha::name_of(stage), origin.source.substr(0, tensor),
                         origin.source.substr(tensor + 2));
  }
  return "";
}

} // namespace

std::string next_steps(const DiffRunOptions& options, const LoadedLayer& loaded, const Diff& diff) {
  if (!diff.first) return "";
  const RunRequest& request = options.request;
  const auto row = std::ranges::find(diff.stages, *diff.first, &StageDiff::stage);
  const Layer& layer = loaded.layer;
  const std::string sources = retyped(request, loaded.id), stage(mha::name_of(row->stage));
  const bool found = layer.has_given(row->stage) && !is_bound(request, row->stage);
  const std::string alone = found ? bound_alone(loaded, row->stage) : "";
  ShownPlace place = place_of(layer, *row, !alone.empty());
  if (!alone.empty() && axis_of(info_of(row->stage).letters[0]) == Axis::kv_head)
    place.options +=
        fmt::format(" --num-heads {}", layer.dims.H_kv); // keys alone do not determine it
  std::string out = "Look at it: ";
  if (!alone.empty())
    out += fmt::format("mha-inspect show {} -s {}{}\n", shell_word(alone), stage, place.options);
  else if (place.query && !layer.has_given(row->stage) && !is_derived(row->stage) &&
           contains(available_stages(layer), Stage::weights))
    out += fmt::format("mha-inspect explain {}{}\n", sources, place.options);
  else
    out += fmt::format("mha-inspect show {} -s {}{}\n", sources, stage, place.options);
  if (is_derived(row->stage)) return out; // the steps before it agree
  const bool whole = request.has_text() && request.layer.empty();
  return out + "Find why:   mha-inspect diagnose " + (whole ? retyped(request, "") : sources) +
         retyped_against(options.against) + "\n";
}

} // namespace mha::app
