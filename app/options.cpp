#include "options.hpp"

#include "layer_notes.hpp"
#include "progress_bar.hpp"
#include <mha/model/pass.hpp>

#include <algorithm>
#include <charconv>

namespace mha::app {

namespace {

/// "--num-heads" for num_heads.
std::string option_of(std::string_view setting) {
  std::string name = "--" + std::string(setting);
  std::replace(name.begin(), name.end(), '_', '-');
  return name;
}

std::vector<std::string> words_of(std::string_view values) {
  std::vector<std::string> words;
  while (!values.empty()) {
    const std::size_t bar = values.find('|');
    words.emplace_back(values.substr(0, bar));
    if (bar == std::string_view::npos) break;
    values.remove_prefix(bar + 1);
  }
  return words;
}

/// One option per row of the settings table.
void add_settings(Cli& cli, Request& request) {
  cli.group("Settings of the layer, where they differ from what the files say");
  for (const SettingInfo& info : settings_table()) {
    Option option;
    option.name = option_of(info.name);
    option.value_name = info.values;
    option.help = info.text;
    if (info.kind == SettingKind::boolean) option.off = "--no-" + option.name.substr(2);
    if (info.kind == SettingKind::choice && info.values.find("NUMBER") == std::string_view::npos) {
      option.choices = words_of(info.values);
      option.completes = Completes::choices;
    }
    option.set = [&request, &info, name = option.name](const std::string& text) {
      Settings checked;
      set(checked, info.name, text, name);
      request.settings.emplace_back(info.name, text);
    };
    cli.add(std::move(option));
  }
}

void add_index_list(Cli& cli, std::string name, std::string letter,
                    std::optional<IndexList>& target, std::string help) {
  Option option;
  option.name = std::move(name);
  option.letter = std::move(letter);
  option.value_name = "LIST";
  option.help = std::move(help);
  option.joins = true;
  option.set = [&target, label = option.name](const std::string& text) {
    target.emplace(text, label);
  };
  cli.add(std::move(option));
}

} // namespace

const char* const sources_help =
    "The layer: .json, .npz, .npy or .safetensors files, folders of .npy, checkpoint folders, "
    "NAME=FILE[:TENSOR][@AXES] for one tensor, NAME=FILE:DTYPE[SHAPE] for raw bytes, - for "
    "standard "
    "input; in any order, a binding wins.";

void add_layer(Cli& cli, Request& request, bool required) {
  cli.positionals("SOURCE...", sources_help, request.sources, required);
  cli.group("The layer");
  cli.value("--layer,-l", "N", request.layer,
            "which layer: its number or name, a range such as 0-3, or all");
  cli.value("--prefix", "PREFIX", request.prefix,
            "where the layer's tensors are: model.layers.3.self_attn");
  cli.value("--naming", "FAMILY", request.naming,
            "read tensor names as this family's; default: recognised");
  cli.flag("--same-x", request.same_x,
           "with several layers: a tensor without {layer} is meant for all of them");
  cli.value("--config", "FILE", request.config, "a config.json that says the model's settings")
      .offers(Completes::files);
  cli.value("--tokens", "FILE|TEXT", request.tokens,
            "labels of the queries: a file, or \"the cat sat\"")
      .offers(Completes::files);
  cli.value("--key-tokens", "FILE|TEXT", request.key_tokens,
            "labels of the keys, where they differ")
      .offers(Completes::files);
  add_text(cli, request);
  Option dtype;
  dtype.name = "--dtype";
  dtype.value_name = "f32|f64";
  dtype.help = "precision to compute in; default: that of X";
  dtype.choices = {"f32", "f64", "float32", "float64"};
  dtype.completes = Completes::choices;
  dtype.set = [&request](const std::string& text) { request.dtype = dtype_named(text); };
  cli.add(std::move(dtype));
  add_settings(cli, request);
}

void add_text(Cli& cli, Request& request, bool numbers) {
  const auto run = std::make_shared<ModelPass>();
  request.inputs = run;
  Text& text = run->text; // lives as long as the request
  cli.group(numbers ? "A text for a whole model, which computes every layer's X" : "The text");
  const auto repeated = [&](const char* name, const char* value, const char* help,
                            std::vector<std::string>& target, Completes completes) {
    Option option;
    option.name = name, option.value_name = value, option.help = help;
    option.completes = completes, option.repeats = true;
    option.set = [&target](const std::string& word) { target.push_back(word); };
    cli.add(std::move(option));
  };
  repeated("--text", "TEXT", "a text, cut by the checkpoint's tokenizer; again: a batch",
           text.texts, Completes::nothing);
  repeated("--text-file", "FILE", "a text in a file, its bytes as they are; - is standard input",
           text.files, Completes::files);
  cli.flag("--each-line", text.each_line, "every line of --text-file is a text: a batch");
  if (numbers)
    repeated("--ids", "N,N…|FILE",
             "token numbers as they are, or a file of them (T or B × T); again: a batch", text.ids,
             Completes::files);
  Option bos;
  bos.name = "--bos", bos.off = "--no-bos";
  bos.help = "begin with the special token that opens a text, whatever the files say";
  bos.set = [&text](const std::string& value) { text.special.bos = value == "true"; };
  cli.add(std::move(bos));
  cli.flag("--no-special", text.special.none, "add no special tokens at the ends");
}

void add_selection(Cli& cli, Selection& selection, Axes axes) {
  cli.group("Selection: i, a-b (both ends), a:b (as NumPy slices), separated by commas");
  if (axes.head)
    add_index_list(cli, "--head", "-H", selection.head,
                   "query heads; k and v show the ones these read");
  if (axes.query) add_index_list(cli, "--query", "-Q", selection.query, "query tokens");
  if (axes.key) add_index_list(cli, "--key", "-K", selection.key, "key tokens");
  if (axes.batch) add_index_list(cli, "--batch", "-B", selection.batch, "batch items");
}

void add_stages(Cli& cli, std::vector<std::string>& names) {
  cli.group("Stages");
  cli.list("--stage,-s", "NAME[,NAME]", names, "steps by name, as `mha-inspect stages` lists them")
      .offers(Completes::stages);
}

void add_part(Cli& cli, std::optional<Shard>& part) {
  Option option;
  option.name = "--part";
  option.value_name = "I/N";
  option.help = "the I-th of N parts (1/N is the first), about equally much work each; `convert` "
                "joins their files";
  option.set = [&part](const std::string& text) {
    const auto refuse = [&](std::string_view expected) {
      throw UsageError(fmt::format("--part is '{}': {}", text, expected));
    };
    Shard wanted;
    const char* end = text.data() + text.size();
    const auto first = std::from_chars(text.data(), end, wanted.index);
    if (first.ec != std::errc() || first.ptr == end || *first.ptr != '/')
      refuse("I/N expected, such as 2/7 for the second of seven");
    const auto second = std::from_chars(first.ptr + 1, end, wanted.count);
    if (second.ec != std::errc() || second.ptr != end)
      refuse("I/N expected, such as 2/7 for the second of seven");
    if (wanted.count == 0 || wanted.index == 0) refuse("parts count from 1: 1/N is the first");
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
    if (std::find(stages.begin(), stages.end(), stage) == stages.end()) stages.push_back(stage);
  }
  return stages;
}

void add_common(Cli& cli, Common& common, bool computes) {
  cli.group("General");
  if (computes) {
    cli.value("--threads,-j", "N", common.threads,
              "threads to compute with; default: as many as pay");
    cli.flag("--timings", common.timings,
             "one JSON line on standard error: seconds to read, compute and write");
  }
  cli.flag("--strict", common.strict, "what would be a warning is an error");
  cli.flag("--quiet,-q", common.quiet, "no notes and no progress on standard error");
  Option color;
  color.name = "--color";
  color.value_name = "auto|always|never";
  color.help = "colours; auto: on a terminal, unless NO_COLOR is set";
  color.choices = {"auto", "always", "never"};
  color.completes = Completes::choices;
  color.set = [&common](const std::string& text) {
    common.color = text == "always"  ? Color::always
                   : text == "never" ? Color::never
                                     : Color::automatic;
  };
  cli.add(std::move(color));
}

void tell_notes(const std::vector<Note>& notes, const Common& common) {
  if (common.strict) require_no_warning(notes);
  if (common.quiet) return;
  for (const Note& note : notes) print_note(note.text, common.color, note.severity);
}

bool tell_warnings_on_the_way(Inputs& text, const Common& common) {
  bool any = false;
  for (const Inputs::OfLayer& layer : text.take_warnings()) {
    any = true;
    if (common.strict) require_no_warning(layer.warnings);
    if (!common.quiet) keep_notes(layer.warnings, layer.id, common.color);
  }
  return any;
}

LoadedLayer load_layer(const Model& model, const std::string& id, Common& common, bool outline) {
  const Stopwatch watch(common.read_s);
  if (Inputs* text = model.text()) text->threads = common.threads;
  LoadedLayer loaded = outline ? model.outline(id) : model.load(id);
  const bool on_the_way = model.text() && tell_warnings_on_the_way(*model.text(), common);
  if (!on_the_way && model.chosen().size() <= 1) {
    tell_notes(loaded.notes, common);
  } else {
    if (common.strict) require_no_warning(loaded.notes);
    if (!common.quiet) keep_notes(loaded.notes, id, common.color);
  }
  if (!common.quiet && common.progress) show_progress(model.chosen().size());
  return loaded;
}

void tell_overflow(const std::string& text, const Common& common) {
  if (text.empty()) return;
  if (common.strict) fail("{} (an error by --strict)", text);
  if (!common.quiet) print_note(text, common.color, Severity::warning);
}

void report_timings(const Common& common) {
  if (!common.timings) return;
  print_message(fmt::format("{{\"read_s\": {:.6f}, \"compute_s\": {:.6f}, \"write_s\": {:.6f}}}\n",
                            common.read_s, common.compute_s, common.write_s));
}

} // namespace mha::app
