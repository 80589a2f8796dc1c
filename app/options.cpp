#include "options.hpp"

#include "layer_notes.hpp"
#include "layer_options.hpp"
#include "progress.hpp"
#include <mha/model/opened_model.hpp>
#include <mha/naming/stage_names.hpp>
#include <mha/observe/not_finite.hpp>
#include <mha/schedule/weight.hpp>
#include <mha/system/characters.hpp>
#include <mha/system/named.hpp>
#include <mha/system/one_of.hpp>
#include <mha/system/parse.hpp>
#include <mha/system/words.hpp>

#include <algorithm>
#include <cmath>
#include <utility>

namespace mha::app {

namespace {

void add_index_list(Cli& cli, std::string name, std::string letter,
                    std::optional<IndexList>& target, std::string help, bool tokens = false) {
  Option option;
  option.name = std::move(name);
  option.letter = std::move(letter);
  option.value_name = "LIST";
  option.help = std::move(help);
  option.joins = true;
  option.set = [&target, label = option.name, tokens](const std::string& text) {
    target = tokens ? IndexList::of_tokens(text, label) : IndexList(text, label);
  };
  cli.add(std::move(option));
}

/// Reads "2G", "512M", "1.5GiB" or "0" with binary units.
std::size_t bytes_named(const std::string& text, const std::string& label) {
  constexpr std::string_view units = "KMGT";
  std::string_view unit = text;
  const auto number = take_number<double>(unit);
  double factor = 1;
  if (!unit.empty()) {
    const std::size_t at = units.find(ascii_upper(unit[0]));
    if (at != std::string_view::npos) factor = std::pow(1024, at + 1), unit.remove_prefix(1);
    if (unit == "iB" || unit == "B") unit = {};
  }
  const double bytes = number.value_or(0) * factor;
  if (!number || !unit.empty() || !(bytes >= 0 && bytes < 9e18))
    throw UsageError(
        fmt::format("{} is '{}': a number of bytes expected, such as 2G, 512M or 0", label, text));
  return static_cast<std::size_t>(bytes);
}

} // namespace

const char* const sources_help =
    "The layer, from any number of sources in any order: .json, .npz, .npy, .safetensors, .pt, "
    ".gguf or .onnx files, folders of .npy files, checkpoint folders, NAME=FILE[:TENSOR][@AXES] "
    "for one tensor, NAME=FILE:DTYPE[SHAPE] for raw bytes, NAME=VALUE for a setting, - for "
    "standard input. A tensor given by NAME=FILE overrides the same tensor in other files.";

void add_layer(Cli& cli, RunRequest& request, bool required) {
  request.wording = Wording::command_line;
  cli.positionals("SOURCE...", sources_help, request.sources, required);
  cli.check([&request, required, command = cli.command()] {
    move_settings_from_sources(request);
    if (required && request.sources.empty())
      throw UsageError(fmt::format("{} needs a SOURCE in addition to settings", command));
  });
  cli.shared_group("The layer");
  cli.value("--layer,-l", "N", request.layer,
            "the layer: a number or name, a range such as 0-3, or all")
      .joins = true;
  cli.value("--prefix", "PREFIX", request.prefix,
            "the prefix of the layer's tensor names: model.layers.3.self_attn");
  cli.value(
      "--naming", "FAMILY", request.naming,
      "the model family, or description file, that defines the tensor names; default: detected");
  cli.flag("--gguf-order", request.gguf_order,
           "keep queries and keys of a GGUF file in its own order, in which neighbours are "
           "rotated; default: the order of the published weights");
  cli.flag("--same-x", request.same_x,
           "with several layers: use a tensor without {layer} for all of them");
  cli.value("--config", "FILE", request.config, "a config.json with the model's settings")
      .offers(Completes::files);
  cli.value("--tokens", "FILE|TEXT", request.tokens,
            "labels of the queries: a file, or \"the cat sat\"")
      .offers(Completes::files);
  cli.value("--key-tokens", "FILE|TEXT", request.key_tokens, "labels of the keys, if they differ")
      .offers(Completes::files);
  add_text(cli, request);
  add_patches(cli, request);
  Option dtype;
  dtype.name = "--dtype";
  dtype.value_name = "f32|f64";
  dtype.help = "precision of the computation; default: that of X";
  dtype.choices = {"f32", "f64", "float32", "float64"};
  dtype.completes = Completes::choices;
  dtype.set = [&request](const std::string& text) { request.dtype = dtype_named(text); };
  cli.add(std::move(dtype));
  add_settings(cli, request);
}

void add_text(Cli& cli, RunRequest& request, bool numbers) {
  Text& text = request.text;
  cli.shared_group(numbers ? "A text for a whole model, which computes every layer's X"
                           : "The text");
  const auto repeated = [&](const char* name, const char* value, const char* help,
                            std::vector<std::string>& target, Completes completes) {
    Option option;
    option.name = name, option.value_name = value, option.help = help;
    option.completes = completes, option.repeats = true;
    option.set = [&target](const std::string& word) { target.push_back(word); };
    cli.add(std::move(option));
  };
  repeated("--text", "TEXT", "a text, split by the checkpoint's tokenizer; repeated: a batch",
           text.texts, Completes::nothing);
  repeated("--text-file", "FILE", "a file with a text, used byte for byte; - is standard input",
           text.files, Completes::files);
  cli.flag("--each-line", text.each_line, "treat every line of --text-file as a text of a batch");
  if (numbers)
    repeated("--ids", "N,N…|FILE",
             "token numbers, or a file with them (T or B × T); repeated: a batch", text.ids,
             Completes::files);
  if (numbers)
    cli.value("--inputs-embeds", "FILE", text.rows,
              "embedding vectors instead of tokens, T × N or B × T × N, as Hugging Face's "
              "inputs_embeds")
        .offers(Completes::files);
  Option memory;
  memory.name = "--memory", memory.value_name = "SIZE";
  memory.help = "the memory for packed weights that are kept for the next pass: 2G, 512M, 0; "
                "default: half of the free memory";
  memory.set = [&request](const std::string& size) {
    request.memory = bytes_named(size, "--memory");
  };
  cli.add(std::move(memory));
  Option bos;
  bos.name = "--bos", bos.off = "--no-bos";
  bos.help = "start each text with the special token for its beginning, whatever the files specify";
  bos.set = [&text](const std::string& value) { text.special.bos = value == "true"; };
  cli.add(std::move(bos));
  cli.flag("--no-special", text.special.none, "add no special tokens at either end");
}

void add_selection(Cli& cli, Selection& selection, Axes axes) {
  cli.group("Selection: i, a-b (both ends), a:b (as NumPy slices), separated by commas");
  if (axes.head)
    add_index_list(cli, "--head", "-H", selection.head,
                   "query heads; k and v show the key/value heads that these read");
  if (axes.query)
    add_index_list(cli, "--query", "-Q", selection.query,
                   "query tokens, also by their text: ' Juliet', or 'the#2' for the third 'the'",
                   true);
  if (axes.key)
    add_index_list(cli, "--key", "-K", selection.key, "key tokens, also by their text", true);
  if (axes.batch) add_index_list(cli, "--batch", "-B", selection.batch, "batch items");
}

std::vector<std::size_t> positions_in(const IndexList& list, const Texts& text, std::size_t batch) {
  std::vector<std::string> labels;
  for (std::size_t t = 0; list.names_tokens() && t < text.lengths()[batch]; ++t)
    labels.push_back(text.plain(text.ids()[batch][t]));
  const std::string where = text.batched() ? fmt::format("text {}", batch) : "";
  return list.placed(labels, where).resolve(text.lengths()[batch], "tokens").indices;
}

void add_stages(Cli& cli, std::vector<std::string>& names) {
  cli.group("Stages");
  cli.list("--stage,-s", "NAME[,NAME]", names,
           "stages by name, as listed by `mha-inspect stages`, and those that combine several "
           "heads or layers: " +
               joined_texts(names_of_rows<std::string>(derived_stages()), ", "))
      .offers(Completes::stages);
}

void add_part(Cli& cli, std::optional<Shard>& part) {
  Option option;
  option.name = "--part";
  option.value_name = "I/N";
  option.help = "only the I-th of N parts (1/N is the first) of about equal work; `convert` joins "
                "their files";
  option.set = [&part](const std::string& text) {
    const auto refuse = [&](std::string_view expected) {
      throw UsageError(fmt::format("--part is '{}': {}", text, expected));
    };
    Shard wanted;
    std::string_view rest = text;
    const auto index = take_number<std::size_t>(rest),
               count =
                   rest.starts_with('/') ? parse_number<std::size_t>(rest.substr(1)) : std::nullopt;
    if (!index || !count) refuse("I/N expected, such as 2/7 for the second of seven");
    wanted.index = *index, wanted.count = *count;
    if (wanted.count == 0 || wanted.index == 0)
      refuse("parts are counted from 1: 1/N is the first");
    if (wanted.index > wanted.count)
      refuse(fmt::format("there are only {} parts, 1/{} to {}/{}", wanted.count, wanted.count,
                         wanted.count, wanted.count));
    --wanted.index;
    part = wanted;
  };
  cli.add(std::move(option));
}

std::vector<Stage> stages_named(const std::vector<std::string>& names) {
  std::vector<Stage> stages;
  for (const std::string& name : names) {
    const Stage stage = stage_named(name);
    add_once(stages, stage);
  }
  return stages;
}

void add_fixed(render::JsonText& json, std::string_view name, double value, int digits) {
  json.key(name).raw(fmt::format("{:.{}f}", value, digits));
}

namespace {

/// The line of --timings.
void report_timings(const Common& common) {
  if (!common.timings) return;
  const LayerCounts none;
  const LayerCounts& counts = common.counts ? *common.counts : none;
  const KeptWeights no_weights(0);
  const KeptWeights& weights = common.weights ? *common.weights : no_weights;
  const double packing = weights.packing_seconds();
  render::JsonText json;
  json.object([&] {
    add_fixed(json, "read_s", common.read_s);
    add_fixed(json, "pack_s", packing);
    add_fixed(json, "compute_s", common.compute_s - packing);
    add_fixed(json, "write_s", common.write_s);
    json.member("layers_made", counts.made.load())
        .member("layers_computed", counts.computed.load())
        .member("kept_bytes", weights.bytes())
        .member("memory", weights.budget());
    if (common.more_timings) common.more_timings(json);
  });
  json.end_line();
  print_message(json.take());
}

} // namespace

void add_common(Cli& cli, Common& common, bool computes) {
  cli.shared_group("General");
  if (computes) {
    cli.value("--threads,-j", "N", common.threads,
              "number of threads; default: as many as speed up the computation");
    cli.flag(
        "--timings", common.timings,
        "print the seconds for reading, computing and writing as a JSON line on standard error");
    cli.at_end([&common] { report_timings(common); });
  }
  cli.flag("--strict", common.strict, "treat warnings as errors");
  cli.flag("--quiet,-q", common.quiet, "print no notes and no progress on standard error");
  Option color;
  color.name = "--color";
  color.value_name = "auto|always|never";
  color.help = "use colours; auto: on a terminal unless NO_COLOR is set";
  color.choices = {"auto", "always", "never"};
  color.completes = Completes::choices;
  color.set = [&common](const std::string& text) {
    common.color = text == "always"  ? Color::always
                   : text == "never" ? Color::never
                                     : Color::automatic;
  };
  cli.add(std::move(color));
}

void print_note(std::string_view message, const Common& common, Severity severity) {
  if (!common.quiet) print_note(message, common.color, severity);
}

void report_notes(const std::vector<Note>& notes, const Common& common) {
  if (common.strict) require_no_warning(notes);
  for (const Note& note : notes) print_note(console_text(note), common, note.severity);
}

bool report_warnings(const std::vector<LayerWarnings>& layers, const Common& common) {
  for (const LayerWarnings& layer : layers) {
    if (common.strict) require_no_warning(layer.warnings);
    if (!common.quiet) keep_notes(layer.warnings, layer.id, common.color);
  }
  return !layers.empty();
}

Note idle_gguf_order() {
  return warning("--gguf-order has no effect: none of the files is GGUF");
}

std::vector<Note> idle_options(const RunRequest& request, const Sources& sources) {
  std::vector<Note> notes;
  if (request.gguf_order && std::ranges::none_of(sources.contents(), [](const io::Contents& file) {
        return file.format == "gguf";
      }))
    notes.push_back(idle_gguf_order());
  if (!request.config.empty() && sources.found().empty())
    notes.push_back(warning("--config has no effect: no tensors have the names of a model"));
  if (request.same_x && !sources.shares_a_tensor())
    notes.push_back(warning(fmt::format("--same-x has no effect: {}",
                                        request.has_text() ? "for a text, each layer has its own X"
                                        : sources.chosen().size() == 1
                                            ? "one layer is chosen"
                                            : "no tensor is shared by several layers")));
  return notes;
}

OpenedModel open_model(const RunRequest& request, Common& common) {
  const Stopwatch watch(common.read_s);
  OpenedModel model(request);
  model.threads = common.threads;
  common.counts = model.sources().counts();
  report_notes(idle_options(request, model.sources()), common);
  if (model.texts()) common.weights = model.texts()->weights()->kept();
  return model;
}

void expect_layers(const OpenedModel& model, const Common& common) {
  if (common.quiet || !common.progress) return;
  std::size_t count = model.chosen().size();
  if (model.texts()) {
    const std::vector<std::string>& layers = model.texts()->layers();
    for (const std::string& id : model.chosen()) // the model's end comes after the last layer
      count = std::max(
          count, static_cast<std::size_t>(std::ranges::find(layers, id) - layers.begin()) + 1);
  }
  show_progress(count);
}

void count_as_computed(OpenedModel& model, Common& common) {
  const double seconds = std::exchange(model.computed_s, 0);
  common.read_s -= seconds, common.compute_s += seconds;
}

LoadedLayer load_layer(OpenedModel& model, const std::string& id, Common& common, bool outline,
                       std::vector<Sources::SourceTensor>* parts) {
  expect_layers(model, common);
  LoadedLayer loaded = [&] {
    const Stopwatch watch(common.read_s);
    return parts ? model.load(id, *parts) : outline ? model.outline(id) : model.load(id);
  }();
  count_as_computed(model, common);
  // A whole model's weights are not read for this check: its results show it (OverflowWatch).
  if (!outline && !loaded.layer.block)
    std::ranges::move(not_finite_inputs(loaded.layer), std::back_inserter(loaded.notes));
  const bool on_the_way = report_warnings(loaded.on_the_way, common);
  if (!on_the_way && model.chosen().size() <= 1) {
    report_notes(loaded.notes, common);
  } else {
    if (common.strict) require_no_warning(loaded.notes);
    if (!common.quiet) keep_notes(loaded.notes, id, common.color);
  }
  return loaded;
}

void report_overflow(const Message& text, const Common& common) {
  if (text.empty()) return;
  if (common.strict) fail("{} (an error by --strict)", text);
  print_note(console_text(text), common, Severity::warning);
}

} // namespace mha::app
