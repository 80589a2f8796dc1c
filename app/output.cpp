#include "output.hpp"

#include <mha/files/component.hpp>
#include <mha/files/inputs.hpp>
#include <mha/files/writer.hpp>
#include <mha/formats/create.hpp>
#include <mha/layer/graph.hpp>
#include <mha/system/one_of.hpp>
#include <mha/system/words.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>

namespace mha::app {

namespace {

std::string filled(std::string path, std::string_view placeholder, std::string_view text) {
  for (std::size_t at = path.find(placeholder); at != std::string::npos;
       at = path.find(placeholder, at + text.size()))
    path.replace(at, placeholder.size(), text);
  return path;
}

bool has_axis(Stage stage, std::string_view placeholder) {
  if (placeholder == "{batch}") return true;
  const std::vector<Dim>& letters = info_of(stage).letters;
  return std::any_of(letters.begin(), letters.end(), [](Dim letter) {
    return axis_of(letter) == Axis::head || axis_of(letter) == Axis::kv_head;
  });
}

/// A path, part by part: each of its files once per position of the axis.
void split(std::vector<PlannedFile>& files, std::string_view placeholder,
           std::optional<IndexList> Selection::*list, std::size_t count, std::string_view what,
           const std::string& option) {
  std::vector<PlannedFile> finer;
  for (const PlannedFile& file : files) {
    const IndexList chosen = (file.selection.*list).value_or(IndexList(":", option));
    for (std::size_t index : chosen.resolve(count, what).indices) {
      PlannedFile one{filled(file.path, placeholder, std::to_string(index)), file.selection};
      one.selection.*list = IndexList(std::to_string(index), option);
      finer.push_back(std::move(one));
    }
  }
  files = std::move(finer);
}

/// Many files want a folder of their own. Where it cannot be made, opening the file says why.
void make_folders(const std::vector<PlannedFile>& files) {
  for (const PlannedFile& file : files) {
    std::error_code ignored;
    const std::filesystem::path folder = std::filesystem::path(file.path).parent_path();
    if (!folder.empty()) std::filesystem::create_directories(folder, ignored);
  }
}

} // namespace

namespace {

/// Throws for what stands in braces and is no placeholder that the command fills in.
void require_placeholders(std::string_view path, std::span<const std::string_view> known,
                          const std::string& command) {
  for (std::size_t at = 0; (at = path.find('{', at)) != std::string_view::npos; ++at) {
    const std::size_t end = path.find('}', at);
    const bool closed = end != std::string_view::npos;
    const std::string_view word =
        path.substr(at, (closed ? end + 1 : path.find_first_of("./", at)) - at);
    if (is_one_of(word, known)) continue;
    if (!closed && closest(word, all_placeholders).empty()) return; // a file's own name
    const std::string filled_in =
        known.empty() ? fmt::format("{} writes one file", command)
                      : fmt::format("{} fills in {}", command, fmt::join(known, ", "));
    if (is_one_of(word, all_placeholders)) fail("{} stands for nothing here: {}", word, filled_in);
    fail("{} is no placeholder: {}{}", render::visible(word), filled_in, did_you_mean(word, known));
  }
}

} // namespace

namespace {

/// What has no form of render::forms(), and its extension. Of several formats with one extension a
/// command means the one that it writes.
constexpr std::pair<std::string_view, std::string_view> other_extensions[]{
    {".txt", "text"},  {".md", "markdown"},
    {".html", "html"}, {".htm", "html"},
    {".png", "png"},   {".svg", "svg"},
    {".pdf", "pdf"},   {".npy", "npy"},
    {".npz", "npz"},   {".safetensors", "safetensors"}};

/// Every extension with the format that it means.
void each_extension(
    const std::function<void(std::string_view extension, std::string_view format)>& use) {
  for (const render::Form& form : render::forms())
    for (std::string_view extension : words_of(form.extensions, ",")) use(extension, form.name);
  for (const auto& [extension, format] : other_extensions) use(extension, format);
}

bool writes(const OutputOptions& output, std::string_view format) {
  return is_one_of(format, output.formats);
}

/// ".txt, .csv, …": what means a format of the command.
std::string extensions_of(const OutputOptions& output) {
  std::vector<std::string_view> list;
  each_extension([&](std::string_view extension, std::string_view format) {
    if (writes(output, format)) add_once(list, extension);
  });
  return fmt::format("{}", fmt::join(list, ", "));
}

/// Whether something is there that is no file, such as /dev/null or a pipe.
bool is_device(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::is_other(std::filesystem::status(path, ignored));
}

/// What the extension of the path means: the format, where the command writes it, and whether it
/// means one at all.
struct Meant {
  std::string_view written, any;
};
Meant meant_by(const OutputOptions& output) {
  Meant meant;
  each_extension([&](std::string_view extension, std::string_view format) {
    if (!output.path.ends_with(extension)) return;
    meant.any = format;
    if (meant.written.empty() && writes(output, format)) meant.written = format;
  });
  return meant;
}

/// What is no picture would be opened by no program under a picture's name.
void require_own_extension(const OutputOptions& output) {
  if (output.to_standard_output() || is_device(output.path)) return;
  const auto [written, any] = meant_by(output);
  const std::string_view meant = written.empty() ? any : written;
  const bool picture = meant == "png" || meant == "svg" || meant == "pdf";
  if (picture && meant != output.format)
    throw UsageError(fmt::format("{}: the extension means {}, --format says {}; give one of them",
                                 render::visible(output.path), meant, output.format));
}

void add_path(Cli& cli, OutputOptions& output, std::vector<std::string> formats, std::string help,
              std::span<const std::string_view> placeholders) {
  output.command = cli.command(), output.formats = std::move(formats);
  Option& option =
      cli.value("--output,-o", "PATH", output.path, std::move(help)).offers(Completes::files);
  option.set = [&output, placeholders](const std::string& text) {
    require_placeholders(text, placeholders, output.command);
    output.path = text;
  };
  cli.check([&output] { form_of(output); });
}

} // namespace

std::string form_of(const OutputOptions& output) {
  if (!output.format.empty()) {
    require_own_extension(output);
    return output.format;
  }
  if (output.to_standard_output() || is_device(output.path)) return output.formats.front();
  const auto [written, meant] = meant_by(output);
  if (!written.empty()) return std::string(written);
  if (meant.empty() && output.any_path) return "";
  const std::string path = render::visible(output.path);
  if (meant.empty())
    throw UsageError(fmt::format("{}: the extension names no format ({}){}", path,
                                 extensions_of(output),
                                 output.formats.size() > 1 ? "; give --format" : ""));
  const bool array = meant == "npz" || meant == "safetensors";
  throw UsageError(fmt::format("{}: {} writes {} and no {}{}", path, output.command,
                               extensions_of(output), meant,
                               array ? "; `mha-inspect dump` writes arrays" : ""));
}

void add_output_path(Cli& cli, OutputOptions& output, std::string format, std::string help,
                     std::span<const std::string_view> placeholders) {
  output.any_path = true;
  add_path(cli, output, {std::move(format)}, std::move(help), placeholders);
}

void add_output(Cli& cli, OutputOptions& output, std::vector<std::string> formats, std::string help,
                std::span<const std::string_view> placeholders) {
  cli.group("Output");
  add_path(cli, output, formats, std::move(help), placeholders);
  cli.choice("--format,-f", std::move(formats), output.format, "default: by the extension of PATH");
}

void add_precision(Cli& cli, std::optional<std::size_t>& precision,
                   std::function<std::string()> form) {
  cli.value("--precision", "DIGITS", precision,
            "significant digits; default: as many as read back to the same number");
  cli.unused({"--precision"}, [form = std::move(form)] {
    constexpr std::string_view exact[] = {"csv", "tsv", "json", "ndjson"};
    return is_one_of(form(), exact)
               ? std::string()
               : std::string("is of CSV, TSV and JSON; tables and pictures round to fit, arrays "
                             "have every digit");
  });
}

render::TextStyle look_of(const OutputOptions& output, Color color) {
  render::TextStyle look = look_of_output(color);
  if (!output.to_standard_output()) look.color = color == Color::always;
  return look;
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
  return filled(std::move(path), "{layer}", io::path_component(id.empty() ? "0" : id));
}

std::string with_batch(std::string path, std::size_t batch) {
  return filled(std::move(path), "{batch}", std::to_string(batch));
}

bool mentions(std::string_view path, std::string_view placeholder) {
  return path.find(placeholder) != std::string_view::npos;
}

Selection selection_of(const LoadedLayer& loaded, const Selection& selection, std::size_t layers) {
  Selection own = selection.placed(loaded.layer);
  if (loaded.layer.ends && layers > 1) own.head.reset(), own.key.reset();
  return own;
}

std::vector<PlannedFile> planned_files(const std::string& path, const LoadedLayer& loaded,
                                       const Selection& selection, std::vector<Stage>& stages,
                                       bool named) {
  const Dims& dims = loaded.layer.dims;
  const std::string id = loaded.id.empty() && loaded.layer.ends ? "model" : loaded.id;
  std::vector<PlannedFile> files{{with_layer(path, id), selection.placed(loaded.layer)}};
  if (!dims.batched) files[0].path = with_batch(std::move(files[0].path), 0);
  for (std::string_view placeholder : {"{head}", "{batch}"}) {
    if (!mentions(files[0].path, placeholder)) continue;
    const auto lacks = [&](Stage stage) { return !has_axis(stage, placeholder); };
    const auto lacking = std::find_if(stages.begin(), stages.end(), lacks);
    if (lacking != stages.end() && named)
      fail("{}: {} has no head axis for {{head}}; head_out and head_result show single heads", path,
           name_of(*lacking));
    stages.erase(std::remove_if(stages.begin(), stages.end(), lacks), stages.end());
    if (stages.empty() && loaded.layer.ends && !named) return {};
    if (stages.empty()) fail("{}: none of the stages has an axis for {}", path, placeholder);
  }
  if (mentions(files[0].path, "{batch}"))
    split(files, "{batch}", &Selection::batch, dims.B, "batch items", "--batch");
  if (mentions(path, "{head}")) split(files, "{head}", &Selection::head, dims.H, "heads", "--head");
  // Before anything is computed. The writer checks again, when all is known that was read.
  for (const PlannedFile& file : files)
    if (file.path != "-" && !file.path.empty()) io::require_no_input(file.path);
  if (path.find('{') != std::string::npos) make_folders(files);
  return files;
}

StageSet some_stages(const Layer& layer) {
  const StageSet available = available_stages(layer);
  if (available.none())
    fail("no stage can be computed: there is no input{}; or bind a stage to start from",
         layer.missing_X.empty() ? "; bind it, X=FILE or X=FILE:TENSOR" : layer.missing_X);
  return available;
}

std::vector<Stage> stages_of(const Layer& layer, const std::vector<std::string>& names) {
  const StageSet available = some_stages(layer);
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
    std::vector<Stage> readings = readings_of(name);
    readings.erase(std::remove_if(readings.begin(), readings.end(),
                                  [&](Stage stage) { return !contains(available, stage); }),
                   readings.end());
    const Stage stage = readings.size() == 1 ? readings[0] : stage_named(name);
    // Of a whole model's run, each part has its own.
    if (layer.block && is_of_model(stage)) continue;
    if (layer.ends && !is_of_model(stage)) continue;
    require_stage(layer, stage);
    add(stage);
  }
  return chosen;
}

} // namespace mha::app
