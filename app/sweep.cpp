#include "sweep.hpp"
#include "describe.hpp"

#include "figures.hpp"
#include "text_groups.hpp"

#include <mha/naming/stage_names.hpp>
#include <mha/render/studies.hpp>
#include <mha/system/one_of.hpp>

#include <algorithm>
#include <array>
#include <cstdio>
#include <span>

#include <fmt/ranges.h>

namespace mha::app {

namespace {

constexpr std::array axes{SweepAxis::layer, SweepAxis::head, SweepAxis::query, SweepAxis::key};

/// The layers for each text, without the padding of a batch.
std::vector<std::shared_ptr<const TextLayers>>
one_by_one(const OpenedModel& model, const Texts& texts, const std::string& source) {
  std::vector<std::shared_ptr<const TextLayers>> list;
  for (std::size_t b = 0; b < texts.ids().size(); ++b) {
    const auto text = std::make_shared<const Texts>(texts, b, 1, source, false);
    list.push_back(model.text_layers(text));
  }
  return list;
}

std::vector<SweepPair> pairs_of(const SweepOptions& options, const OpenedModel& model,
                                const Common& common) {
  const Texts& texts = *model.texts();
  const Text& typed = model.request().text;
  Text other = options.other;
  if (!options.path.empty()) other.files = {options.path};
  other.each_line = !options.path.empty() && typed.each_line;
  other.special = typed.special;
  const Texts from(texts.weights(), other);
  for (const Note& note : from.notes())
    if (!is_one_of(note, texts.notes()))
      report_notes({{message("--patch-from: {}", note.message), note.severity}}, common);
  const auto clean = one_by_one(model, texts, "--text"),
             other_runs = one_by_one(model, from, "--patch-from");
  if (clean.size() != other_runs.size())
    fail("{} and {} of --patch-from: texts are paired, so give as many",
         counted(clean.size(), "texts"), other_runs.size());
  std::vector<SweepPair> pairs;
  for (std::size_t i = 0; i < clean.size(); ++i) pairs.push_back({clean[i], other_runs[i]});
  return pairs;
}

/// The meaning of 0 and 1, for a picture's title; "" if cells are the measure itself.
std::string_view range_of(const SweepRequest& request) {
  if (request.raw) return "";
  return request.metric == SweepMetric::kl ? ", 1: as far as the other run"
                                           : ", 0: this run, 1: the other";
}

/// One panel for each stage: the first axis downwards, the second (if any) across.
std::vector<render::MapPanel> sweep_panels(const SweepResult& sweep,
                                           const render::SweepView& view) {
  if (view.over.size() > 2)
    fail("a picture of a sweep has two axes: --over {},{}; CSV, JSON and .npy allow more",
         name_of(view.over[0]), name_of(view.over[1]));
  std::vector<render::MapPanel> panels;
  for (std::size_t s = 0; s < view.stages.size(); ++s) {
    std::array<render::GridAxis, 2> sides;
    sides[1].labels = {""};
    for (std::size_t side = 0; side < view.over.size(); ++side) {
      std::size_t length = 0;
      for (const SweepPoint& point : sweep.points)
        if (point.stage == s) length = std::max(length, *index_along(point, view.over[side]) + 1);
      const bool of_tokens =
          view.over[side] == SweepAxis::query || view.over[side] == SweepAxis::key;
      sides[side].name = name_of(view.over[side]);
      sides[side].tokens = of_tokens && view.tokens.size() >= length;
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

/// Sets the stages, places and measure of the options in the request. Throws Error.
void set_request(const SweepOptions& options, SweepRequest& request) {
  for (const std::string& stage : options.stages) {
    if (std::ranges::count(options.stages, stage) > 1) fail("--sweep: {} is given twice", stage);
    const StagePlace& place = request.stages.emplace_back(parse_place(stage, "--sweep " + stage, stage_of_place_named));
    if (is_of_model(place.stage))
      fail("--sweep {}: a stage of a layer expected; the input of the first layer is resid_pre",
           stage);
    if (place.names_layer() || !place.axes.empty())
      fail("--sweep {}: the name of a stage alone expected; --over chooses the places", stage);
  }
  for (const std::string& word : options.over) {
    const auto axis =
        std::ranges::find(axes, word, [](SweepAxis candidate) { return name_of(candidate); });
    if (axis == axes.end()) fail("--over {}: layer, head, query or key expected", word);
    if (is_one_of(*axis, request.over)) fail("--over: {} is given twice", word);
    request.over.push_back(*axis);
  }
  if (request.over.empty()) request.over = {SweepAxis::layer, SweepAxis::query};
  // Places are computed in the order of the axes.
  std::ranges::sort(request.over);
  request.metric = options.metric == "loss" ? SweepMetric::loss
                   : options.metric == "kl" ? SweepMetric::kl
                                            : SweepMetric::logit;
  request.raw = options.raw;
}

/// Notes the pairs that are left out, which arrays and pictures cannot show.
void note_left_out(const SweepResult& found, const Common& common) {
  constexpr std::size_t most = 8;
  const std::vector<std::size_t>& pairs = found.without_difference;
  if (pairs.empty()) return;
  const std::string named =
      fmt::format("{}{}", fmt::join(std::span(pairs).first(std::min(pairs.size(), most)), ", "),
                  pairs.size() > most ? fmt::format(" and {} more", pairs.size() - most) : "");
  report_notes({{fmt::format("{} of {} left out of the mean, because both runs have the same "
                             "measure: pair {}, counted from 0",
                             pairs.size(), counted(found.pairs + pairs.size(), "pairs"), named)}},
               common);
}

void write_numbers(const SweepResult& found, const render::SweepView& view,
                   const OutputOptions& output, const Common& common) {
  write_text(output.path,
             sweep_text(found, view, form_of(output), text_style_of(output, common.color)));
}

} // namespace

bool SweepOptions::asked() const {
  const bool from = other.given() || !path.empty();
  if (stages.empty() && (from || !over.empty() || raw || !metric.empty()))
    throw UsageError("--patch-from, --over, --metric and --raw need --sweep STAGES");
  for (const std::string& stage : stages) stage_named(stage); // unknown stages are reported first
  if (!stages.empty() && !from) throw UsageError("--sweep needs another text: --patch-from \"…\"");
  return !stages.empty();
}

void add_sweep(Cli& cli, SweepOptions& sweep) {
  cli.group("Activation patching");
  cli.list("--sweep", "STAGES", sweep.stages,
           "patch each place of these stages in turn with the other text's value: "
           "resid_pre,output,mlp_out");
  const auto repeated = [&](const char* name, const char* value, const char* help,
                            std::vector<std::string>& target) {
    Option option;
    option.name = name, option.value_name = value, option.help = help, option.repeats = true;
    option.set = [&target](const std::string& word) { target.push_back(word); };
    cli.add(std::move(option));
  };
  repeated(
      "--patch-from", "TEXT",
      "the text that provides the values, with as many tokens; with several --text, one for each",
      sweep.other.texts);
  repeated("--patch-from-ids", "N,N…", "that text by its token numbers", sweep.other.ids);
  cli.value("--patch-from-file", "FILE", sweep.path,
            "that text from a file; with --each-line, one text on each line");
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
               const SweepOutput& to, Common& common) {
  const OutputOptions& output = to.output;
  set_request(options, request);
  request.threads = common.threads;
  const std::vector<SweepPair> pairs = pairs_of(options, model, common);
  if (!common.quiet) {
    const SweepCost cost = cost_of(pairs[0], request);
    fmt::print(stderr, "mha-inspect: {} runs{}, {:.0f} whole passes\n", cost.runs,
               pairs.size() > 1 ? fmt::format(" for each of {} pairs", pairs.size()) : "",
               cost.passes);
  }
  SweepResult found;
  {
    const Stopwatch watch(common.compute_s);
    found = sweep(pairs, request);
    report_warnings(pairs[0].here->layer_warnings(), common);
    note_left_out(found, common);
  }
  const Stopwatch watch(common.write_s);
  if (form_of(output) == "npy") return write_npy(found, request, output.path);
  render::SweepView view{
      options.stages, request.over, options.metric.empty() ? "logit" : options.metric,
      request.raw,    {},           to.precision};
  const Texts& shown = pairs[0].here->texts();
  if (pairs.size() == 1)
    for (int id : shown.ids()[0]) view.tokens.push_back(shown.label(id));
  if (!to.picture.empty()) {
    const std::string title =
        fmt::format("{}{} · {}", view.metric, range_of(request), title_of(model));
    return write_grid({output.path, to.picture, to.figure, common.color}, title,
                      sweep_panels(found, view));
  }
  write_numbers(found, view, output, common);
}

} // namespace mha::app
