#include "sweep.hpp"

#include "describe.hpp"
#include "figures.hpp"
#include "text_groups.hpp"

#include <mha/naming/stage_names.hpp>
#include <mha/render/studies.hpp>
#include <mha/system/one_of.hpp>

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <span>

namespace mha::app {

namespace {

constexpr std::array axes{SweepAxis::layer, SweepAxis::head, SweepAxis::query, SweepAxis::key};

/// The layers for each text by itself, without the padding of a batch. `option` gave the texts.
std::vector<std::shared_ptr<const TextLayers>>
layers_of_each_text(const OpenedModel& model, const Texts& texts, const std::string& option) {
  std::vector<std::shared_ptr<const TextLayers>> list;
  for (std::size_t b = 0; b < texts.ids().size(); ++b) {
    const auto text = std::make_shared<const Texts>(texts, b, 1, option, false);
    list.push_back(model.text_layers(text));
  }
  return list;
}

std::vector<SweepPair> pairs_of(const SweepOptions& options, const OpenedModel& model,
                                const Common& common) {
  const Texts& texts = *model.texts();
  const Text& typed = model.request().text;
  Text source = options.source;
  if (!options.source_path.empty()) source.files = {options.source_path};
  source.each_line = !options.source_path.empty() && typed.each_line;
  source.special = typed.special;
  const Texts source_texts(texts.weights(), source);
  for (const Note& note : source_texts.notes())
    if (!is_one_of(note, texts.notes()))
      report_notes({{message("--patch-from: {}", note.message), note.severity}}, common);
  const auto patched = layers_of_each_text(model, texts, "--text"),
             sources = layers_of_each_text(model, source_texts, "--patch-from");
  if (patched.size() != sources.size())
    fail("{}, but {} of --patch-from: texts are paired, so give the same number of both",
         counted(patched.size(), "texts"), sources.size());
  std::vector<SweepPair> pairs;
  for (std::size_t i = 0; i < patched.size(); ++i) pairs.push_back({patched[i], sources[i]});
  return pairs;
}

/// What 0 and 1 mean, for a picture's title; "" if the cells show the measure itself.
std::string_view meaning_of_scale(const SweepRequest& request) {
  if (request.raw) return "";
  return request.metric == SweepMetric::kl ? ", 1: as far as the other run"
                                           : ", 0: this run, 1: the other";
}

/// One panel for each stage, with the first axis downwards and the second, if any, across.
std::vector<render::MapPanel> sweep_panels(const SweepResult& sweep,
                                           const render::SweepView& view) {
  if (view.over.size() > 2)
    fail("a picture of a sweep has at most two axes, as with --over {},{}; CSV, JSON and .npy can "
         "have more",
         name_of(view.over[0]), name_of(view.over[1]));
  std::vector<render::MapPanel> panels;
  for (std::size_t s = 0; s < view.stages.size(); ++s) {
    std::array<render::GridAxis, 2> sides;
    sides[1].labels = {""};
    for (std::size_t side = 0; side < view.over.size(); ++side) {
      std::size_t length = 0;
      for (const SweepPoint& point : sweep.points)
        if (point.stage == s) length = std::max(length, *index_along(point, view.over[side]) + 1);
      const bool is_of_positions =
          view.over[side] == SweepAxis::query || view.over[side] == SweepAxis::key;
      sides[side].name = name_of(view.over[side]);
      sides[side].tokens = is_of_positions && view.tokens.size() >= length;
      sides[side].labels.clear();
      for (std::size_t i = 0; i < length; ++i)
        sides[side].labels.push_back(sides[side].tokens ? view.tokens[i] : std::to_string(i));
    }
    std::vector<double> values;
    for (const SweepPoint& point : sweep.points)
      if (point.stage == s) values.push_back(point.value);
    panels.push_back(panel_of(view.stages[s], sides[0], sides[1], std::move(values)));
  }
  return panels;
}

/// Writes the values as one array: stages (if several), then the axes in the order of --over.
void write_npy(const SweepResult& sweep, const SweepRequest& request, const std::string& path) {
  Shape shape;
  if (request.stages.size() > 1) shape.push_back(request.stages.size());
  std::size_t count = shape.empty() ? 1 : shape[0];
  for (const SweepAxis axis : request.over) {
    std::size_t length = 0;
    for (const SweepPoint& point : sweep.points)
      length = std::max(length, *index_along(point, axis) + 1);
    shape.push_back(length), count *= length;
  }
  if (count != sweep.points.size())
    fail("{}: the stages differ in size and do not fit in one array; write CSV or JSON, or one "
         "stage at a time",
         path);
  std::vector<double> values;
  for (const SweepPoint& point : sweep.points) values.push_back(point.value);
  write_arrays(path, "npy", {{"sweep", Tensor::of<double>(shape, values)}});
}

/// Sets the request's stages, axes and measure as the options choose them. Throws Error.
void set_request(const SweepOptions& options, SweepRequest& request) {
  for (const std::string& stage : options.stages) {
    if (std::ranges::count(options.stages, stage) > 1) fail("--sweep: {} is given twice", stage);
    const StagePlace& place =
        request.stages.emplace_back(parse_place(stage, "--sweep " + stage, stage_of_place_named));
    if (is_of_model(place.stage))
      fail("--sweep {}: a stage of a layer expected; the input of the first layer is resid_pre",
           stage);
    if (place.names_layer() || !place.axes.empty())
      fail("--sweep {}: only the name of a stage is expected; --over chooses the places", stage);
  }
  for (const std::string& word : options.over) {
    const auto axis =
        std::ranges::find(axes, word, [](SweepAxis candidate) { return name_of(candidate); });
    if (axis == axes.end()) fail("--over {}: layer, head, query or key expected", word);
    if (is_one_of(*axis, request.over)) fail("--over: {} is given twice", word);
    request.over.push_back(*axis);
  }
  if (request.over.empty()) request.over = {SweepAxis::layer, SweepAxis::query};
  std::ranges::sort(request.over); // places are computed in the order of the axes
  request.metric = options.metric == "loss" ? SweepMetric::loss
                   : options.metric == "kl" ? SweepMetric::kl
                                            : SweepMetric::logit;
  request.raw = options.raw;
}

/// Reports the pairs that are left out in a note, because arrays and pictures cannot show them.
void note_left_out_pairs(const SweepResult& result, const Common& common) {
  constexpr std::size_t max_listed = 8;
  const std::vector<std::size_t>& pairs = result.without_difference;
  if (pairs.empty()) return;
  const std::string listed = fmt::format(
      "{}{}", fmt::join(std::span(pairs).first(std::min(pairs.size(), max_listed)), ", "),
      pairs.size() > max_listed ? fmt::format(" and {} more", pairs.size() - max_listed) : "");
  report_notes({{fmt::format("{} of {} left out of the mean, because both runs have the same "
                             "measure: pair {}, counted from 0",
                             pairs.size(), counted(result.pairs + pairs.size(), "pairs"), listed)}},
               common);
}

void write_numbers(const SweepResult& result, const render::SweepView& view,
                   const OutputOptions& output, const Common& common) {
  write_text(output.path,
             sweep_text(result, view, form_of(output), text_style_of(output, common.color)));
}

} // namespace

bool SweepOptions::asked() const {
  const bool has_source = source.given() || !source_path.empty();
  if (stages.empty() && (has_source || !over.empty() || raw || !metric.empty()))
    throw UsageError("--patch-from, --over, --metric and --raw need --sweep STAGES");
  for (const std::string& stage : stages) stage_named(stage); // unknown stages are reported first
  if (!stages.empty() && !has_source)
    throw UsageError("--sweep needs another text: --patch-from \"…\"");
  return !stages.empty();
}

void add_sweep(Cli& cli, SweepOptions& sweep) {
  cli.group("Activation patching");
  cli.list("--sweep", "STAGES", sweep.stages,
           "patch each place of these stages in turn with the other text's value: "
           "resid_pre,output,mlp_out");
  const auto add_repeated = [&](const char* name, const char* value, const char* help,
                                std::vector<std::string>& target) {
    Option option;
    option.name = name, option.value_name = value, option.help = help, option.repeats = true;
    option.set = [&target](const std::string& word) { target.push_back(word); };
    cli.add(std::move(option));
  };
  add_repeated(
      "--patch-from", "TEXT",
      "the other text, with the same number of tokens; with several --text, one for each of them",
      sweep.source.texts);
  add_repeated("--patch-from-ids", "N,N…", "the other text as token numbers", sweep.source.ids);
  cli.value("--patch-from-file", "FILE", sweep.source_path,
            "a file with the other text; with --each-line, one text on each line");
  cli.list("--over", "AXES", sweep.over,
           "the axes along which places are patched one by one: layer, head, query, key; default: "
           "layer,query");
  cli.choice("--metric", {"logit", "loss", "kl"}, sweep.metric,
             "the measure: the answer's logit minus another's (the default), the loss of the next "
             "token, or the divergence from this run");
  cli.flag("--raw", sweep.raw,
           "show the measure itself instead of its share of the difference between the runs");
}

void run_sweep(const SweepOptions& options, const OpenedModel& model, SweepRequest request,
               const SweepOutput& target, Common& common) {
  const OutputOptions& output = target.output;
  set_request(options, request);
  request.threads = common.threads;
  const std::vector<SweepPair> pairs = pairs_of(options, model, common);
  if (!common.quiet) {
    const SweepCost cost = cost_of(pairs[0], request);
    const std::string of_pairs =
        pairs.size() > 1 ? fmt::format(" for each of {} pairs", pairs.size()) : "";
    print_note(fmt::format("{} runs{}, which cost as much as {:.0f} whole passes", cost.runs,
                           of_pairs, cost.passes),
               common.color);
  }
  SweepResult result;
  {
    const Stopwatch watch(common.compute_s);
    result = sweep(pairs, request);
    report_warnings(pairs[0].here->layer_warnings(), common);
    note_left_out_pairs(result, common);
  }
  const Stopwatch watch(common.write_s);
  if (form_of(output) == "npy") return write_npy(result, request, output.path);
  render::SweepView view{
      options.stages, request.over, options.metric.empty() ? "logit" : options.metric,
      request.raw,    {},           target.precision};
  const Texts& shown = pairs[0].here->texts();
  if (pairs.size() == 1)
    for (int id : shown.ids()[0]) view.tokens.push_back(shown.label(id));
  if (!target.picture.empty()) {
    const std::string title =
        fmt::format("{}{} · {}", view.metric, meaning_of_scale(request), title_of(model));
    return write_grid({output.path, target.picture, target.figure, common.color}, title,
                      sweep_panels(result, view));
  }
  write_numbers(result, view, output, common);
}

} // namespace mha::app
