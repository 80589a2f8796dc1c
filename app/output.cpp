#include "output.hpp"

#include <mha/files/inputs.hpp>
#include <mha/files/paths.hpp>
#include <mha/files/writer.hpp>
#include <mha/formats/formats.hpp>
#include <mha/layer/graph.hpp>
#include <mha/naming/stage_names.hpp>
#include <mha/render/table.hpp>
#include <mha/system/one_of.hpp>
#include <mha/system/words.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>

namespace mha::app {

namespace {

/// Replaces each occurrence of the placeholder in the path by the text.
std::string replace_placeholder(std::string path, std::string_view placeholder,
                                std::string_view text) {
  for (std::size_t at = path.find(placeholder); at != std::string::npos;
       at = path.find(placeholder, at + text.size()))
    path.replace(at, placeholder.size(), text);
  return path;
}

/// Whether one position of the placeholder selects a part of the stage. {batch} always does; {head}
/// needs exactly one axis of heads, since a stage with two (heads × heads) belongs to pairs.
bool has_axis_for(Stage stage, std::string_view placeholder) {
  if (placeholder == "{batch}") return true;
  return std::ranges::count_if(info_of(stage).letters, [](Dim letter) {
           return axis_of(letter) == Axis::head || axis_of(letter) == Axis::kv_head;
         }) == 1;
}

/// Splits each file into one file for each selected position on the placeholder's axis.
/// `positions_name` and `option` name the axis in messages.
void split_by_position(std::vector<PlannedFile>& files, std::string_view placeholder,
                       std::optional<IndexList> Selection::*axis_positions, std::size_t count,
                       std::string_view positions_name, const std::string& option) {
  std::vector<PlannedFile> split_files;
  for (const PlannedFile& file : files) {
    const IndexList positions = (file.selection.*axis_positions).value_or(IndexList(":", option));
    for (std::size_t index : positions.resolve(count, positions_name).indices) {
      PlannedFile split_file{replace_placeholder(file.path, placeholder, std::to_string(index)),
                             file.selection};
      split_file.selection.*axis_positions = IndexList::of_indices({index}, option);
      split_files.push_back(std::move(split_file));
    }
  }
  files = std::move(split_files);
}

/// Creates the folder of each file. Errors are ignored here, because opening the file then fails
/// for the same reason.
void make_folders(const std::vector<PlannedFile>& files) {
  for (const PlannedFile& file : files) {
    std::error_code ignored;
    const std::filesystem::path folder = std::filesystem::path(file.path).parent_path();
    if (!folder.empty()) std::filesystem::create_directories(folder, ignored);
  }
}

/// Throws if a word in braces is not a placeholder that the command replaces.
void require_known_placeholders(std::string_view path, std::span<const std::string_view> known,
                                const std::string& command) {
  for (std::size_t at = 0; (at = path.find('{', at)) != std::string_view::npos; ++at) {
    const std::size_t end = path.find('}', at);
    const bool closed = end != std::string_view::npos;
    const std::string_view word =
        path.substr(at, (closed ? end + 1 : path.find_first_of("./", at)) - at);
    if (is_one_of(word, known)) continue;
    if (!closed && closest(word, all_placeholders).empty())
      return; // an ordinary brace in a file name
    const std::string what_command_does =
        known.empty() ? fmt::format("{} writes one file", command)
                      : fmt::format("{} replaces {}", command, fmt::join(known, ", "));
    if (is_one_of(word, all_placeholders))
      fail("{} has no meaning here: {}", word, what_command_does);
    fail("{} is not a placeholder: {}{}", render::visible(word), what_command_does,
         did_you_mean(word, known));
  }
}

/// Pairs of an extension and a format, for the formats that render::forms() does not list. If an
/// extension has several formats, it means the one that the command writes.
constexpr std::pair<std::string_view, std::string_view> other_extensions[]{
    {".txt", "text"},  {".md", "markdown"},
    {".html", "html"}, {".htm", "html"},
    {".png", "png"},   {".svg", "svg"},
    {".pdf", "pdf"},   {".npy", "npy"},
    {".npz", "npz"},   {".safetensors", "safetensors"}};

/// Calls `visit` with every pair of an extension and a format that it can mean.
void for_each_extension(
    const std::function<void(std::string_view extension, std::string_view format)>& visit) {
  for (const render::Form& form : render::forms())
    for (std::string_view extension : words_of(form.extensions, ",")) visit(extension, form.name);
  for (const auto& [extension, format] : other_extensions) visit(extension, format);
}

bool command_writes(const OutputOptions& output, std::string_view format) {
  return is_one_of(format, output.formats);
}

/// The extensions of the formats that the command writes: ".txt, .csv, …".
std::string extensions_of(const OutputOptions& output) {
  std::vector<std::string_view> list;
  for_each_extension([&](std::string_view extension, std::string_view format) {
    if (command_writes(output, format)) add_once(list, extension);
  });
  return fmt::format("{}", fmt::join(list, ", "));
}

/// Whether the path exists and is neither a file nor a folder, such as /dev/null or a pipe.
bool is_device(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::is_other(std::filesystem::status(path, ignored));
}

/// The format that the extension of the output path means.
struct ExtensionFormats {
  std::string_view written; ///< if the command writes it; else empty
  std::string_view any;     ///< if this or another command writes it; else empty
};
ExtensionFormats formats_by_extension(const OutputOptions& output) {
  ExtensionFormats formats;
  for_each_extension([&](std::string_view extension, std::string_view format) {
    if (!output.path.ends_with(extension)) return;
    formats.any = format;
    if (formats.written.empty() && command_writes(output, format)) formats.written = format;
  });
  return formats;
}

/// Throws if the extension means a picture format other than that of --format, because programs
/// open a file by its extension.
void require_matching_picture(const OutputOptions& output) {
  if (output.to_standard_output() || is_device(output.path)) return;
  const auto [written, any] = formats_by_extension(output);
  const std::string_view format_of_extension = written.empty() ? any : written;
  const bool picture =
      format_of_extension == "png" || format_of_extension == "svg" || format_of_extension == "pdf";
  if (picture && format_of_extension != output.format)
    throw UsageError(fmt::format("{}: the extension means {}, but --format is {}; change one "
                                 "of them",
                                 render::visible(output.path), format_of_extension, output.format));
}

void add_output_option(Cli& cli, OutputOptions& output, std::vector<std::string> formats,
                       std::string help, std::span<const std::string_view> placeholders) {
  output.command = cli.command(), output.formats = std::move(formats);
  Option& option =
      cli.value("--output,-o", "PATH", output.path, std::move(help)).offers(Completes::files);
  option.chooses = false;
  option.set = [&output, placeholders](const std::string& text) {
    require_known_placeholders(text, placeholders, output.command);
    output.path = text;
  };
  cli.check([&output] { form_of(output); });
}

} // namespace

std::string form_of(const OutputOptions& output) {
  if (!output.format.empty()) {
    require_matching_picture(output);
    return output.format;
  }
  if (output.to_standard_output() || is_device(output.path)) return output.formats.front();
  const auto [written, any] = formats_by_extension(output);
  if (!written.empty()) return std::string(written);
  if (any.empty() && output.allows_any_extension) return "";
  const std::string path = render::visible(output.path);
  if (any.empty())
    throw UsageError(fmt::format("{}: unknown extension (expected {}){}", path,
                                 extensions_of(output),
                                 output.formats.size() > 1 ? "; give --format" : ""));
  const bool array = any == "npz" || any == "safetensors";
  throw UsageError(fmt::format("{}: {} writes {}, not {}{}", path, output.command,
                               extensions_of(output), any,
                               array ? "; `mha-inspect dump` writes arrays" : ""));
}

void add_output_path(Cli& cli, OutputOptions& output, std::string format, std::string help,
                     std::span<const std::string_view> placeholders) {
  output.allows_any_extension = true;
  add_output_option(cli, output, {std::move(format)}, std::move(help), placeholders);
}

void add_output(Cli& cli, OutputOptions& output, std::vector<std::string> formats, std::string help,
                std::span<const std::string_view> placeholders) {
  cli.group("Output");
  add_output_option(cli, output, formats, std::move(help), placeholders);
  cli.choice("--format,-f", std::move(formats), output.format,
             "output format; default: given by the extension of PATH");
}

std::vector<std::string> result_formats(std::initializer_list<std::string> more) {
  std::vector<std::string> formats(render::result_forms.begin(), render::result_forms.end());
  formats.insert(formats.end(), more);
  return formats;
}

void add_precision(Cli& cli, std::optional<std::size_t>& precision,
                   std::function<std::string()> form) {
  cli.value("--precision", "DIGITS", precision,
            "number of significant digits; default: enough to restore the exact number");
  cli.unused({"--precision"}, [form = std::move(form)] {
    constexpr std::string_view unrounded[] = {"csv", "tsv", "json", "ndjson"};
    return is_one_of(form(), unrounded)
               ? std::string()
               : std::string("applies to CSV, TSV and JSON; tables and pictures round to fit, "
                             "arrays keep all digits");
  });
}

render::TextStyle text_style_of(const OutputOptions& output, Color color) {
  render::TextStyle text_style = text_style_of_output(color);
  if (!output.to_standard_output()) text_style.color = color == Color::always;
  return text_style;
}

render::Sink TextFile::sink() {
  if (path_.empty() || path_ == "-") return [](std::string_view text) { print(text); };
  return [this](std::string_view text) { text_ += text; };
}

void TextFile::finish() {
  if (path_.empty() || path_ == "-")
    flush();
  else
    io::write_whole(path_, text_);
}

void write_text(const std::string& path, std::string_view text) {
  TextFile file(path);
  file.sink()(text);
  file.finish();
}

void write_arrays(const std::string& path, std::string_view format,
                  const std::vector<std::pair<std::string, Tensor>>& arrays) {
  io::Output out;
  for (const auto& [name, array] : arrays)
    out.items.push_back({name, array.dtype(), array.shape()});
  flush();
  const std::unique_ptr<io::Writer> writer = io::create(path.empty() ? "-" : path, format, out);
  for (std::size_t i = 0; i < arrays.size(); ++i)
    writer->write(i, 0, arrays[i].second.raw(), arrays[i].second.count());
  writer->finish();
}

std::string with_layer(std::string path, const std::string& id) {
  return replace_placeholder(std::move(path), "{layer}", io::path_component(id.empty() ? "0" : id));
}

std::string with_batch(std::string path, std::size_t batch) {
  return replace_placeholder(std::move(path), "{batch}", std::to_string(batch));
}

bool mentions(std::string_view path, std::string_view placeholder) {
  return path.find(placeholder) != std::string_view::npos;
}

Selection selection_of(const LoadedLayer& loaded, const Selection& selection, std::size_t layers) {
  Selection selection_of_layer = selection.placed(loaded.layer);
  // The embedding and the output (`ends`) have no heads or keys.
  if (loaded.layer.ends && layers > 1)
    selection_of_layer.head.reset(), selection_of_layer.key.reset();
  return selection_of_layer;
}

void note_texts_without_selection(const Layer& layer, const Selection& selection,
                                  const Common& common) {
  const std::vector<std::size_t> items = items_without(layer, selection);
  if (items.empty()) return;
  const std::size_t first = items.front(), length = layer.length_of(first);
  print_note(fmt::format("text {} has none of the selected tokens: it has {}{}{}",
                         layer.first_item + first, counted(length, "tokens"),
                         length > 1 ? fmt::format(", 0 to {}", length - 1) : "",
                         items.size() > 1
                             ? fmt::format("; {} other texts have none either", items.size() - 1)
                             : ""),
             common);
}

std::vector<PlannedFile> planned_files(const std::string& path, const LoadedLayer& loaded,
                                       const Selection& selection, std::vector<Stage>& stages,
                                       bool requested_by_name) {
  const Dims& dims = loaded.layer.dims;
  const std::string id = loaded.id.empty() && loaded.layer.ends ? "model" : loaded.id;
  std::vector<PlannedFile> files{{with_layer(path, id), selection.placed(loaded.layer)}};
  if (!dims.batched) files[0].path = with_batch(std::move(files[0].path), 0);
  for (std::string_view placeholder : {"{head}", "{batch}"}) {
    if (!mentions(files[0].path, placeholder)) continue;
    const auto lacks_axis = [&](Stage stage) { return !has_axis_for(stage, placeholder); };
    const auto first_lacking = std::find_if(stages.begin(), stages.end(), lacks_axis);
    if (first_lacking != stages.end() && requested_by_name)
      fail("{}: {} has no head axis for {{head}}; {} show single heads", path,
           name_of(*first_lacking),
           is_derived(*first_lacking) ? "weights and value_norms" : "head_out and head_result");
    stages.erase(std::remove_if(stages.begin(), stages.end(), lacks_axis), stages.end());
    if (stages.empty() && loaded.layer.ends && !requested_by_name) return {};
    if (stages.empty()) fail("{}: no stage has an axis for {}", path, placeholder);
  }
  if (mentions(files[0].path, "{batch}"))
    split_by_position(files, "{batch}", &Selection::batch, dims.B, "batch items", "--batch");
  if (mentions(path, "{head}"))
    split_by_position(files, "{head}", &Selection::head, dims.H, "heads", "--head");
  // Fail before the computation starts if an output would overwrite an input. The writer checks
  // again, because the computation may read more files.
  for (const PlannedFile& file : files)
    if (file.path != "-" && !file.path.empty()) io::require_no_input(file.path);
  if (path.find('{') != std::string::npos) make_folders(files);
  return files;
}

StageSet require_some_stages(const Layer& layer) {
  const StageSet available = available_stages(layer);
  if (available.none())
    fail("no stage can be computed: there is no input{}, or bind a stage to start from",
         layer.missing_X.empty() ? "; bind it with X=FILE or X=FILE:TENSOR" : layer.missing_X);
  return available;
}

std::vector<Stage> stages_of(const Layer& layer, const std::vector<std::string>& names) {
  const StageSet available = require_some_stages(layer);
  std::vector<Stage> chosen;
  const auto add = [&](Stage stage) { add_once(chosen, stage); };
  const auto add_all = [&] {
    for (const Stage stage : available) add(stage);
  };
  if (names.empty()) add_all();
  for (const std::string& name : names) {
    if (name == "all") {
      add_all();
      continue;
    }
    std::vector<Stage> candidates = readings_of(name);
    candidates.erase(std::remove_if(candidates.begin(), candidates.end(),
                                    [&](Stage stage) { return !contains(available, stage); }),
                     candidates.end());
    const Stage stage = candidates.size() == 1 ? candidates[0] : stage_named(name);
    // In a run of a whole model, a block has the stages of a layer, and the embedding and the
    // output (`ends`) have the stages of the model; names of the other kind are skipped.
    if (layer.block && is_of_model(stage)) continue;
    if (layer.ends && !is_of_model(stage)) continue;
    require_stage(layer, stage, available);
    add(stage);
  }
  return chosen;
}

} // namespace mha::app
