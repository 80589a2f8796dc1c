// convert: writes a layer in canonical form, or a whole model, in another format.

#include "commands/commands.hpp"
#include "dump_text.hpp"
#include "output.hpp"
#include <mha/files/text.hpp>
#include <mha/formats/formats.hpp>
#include <mha/formats/shard_file.hpp>
#include <mha/layer/names.hpp>
#include <mha/naming/stage_names.hpp>
#include <mha/naming/tensor_names.hpp>
#include <mha/system/one_of.hpp>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

namespace mha::app {

namespace {

struct Convert {
  RunRequest request;
  OutputOptions output;
  std::string dtype;
  Common common;

  int run();

private:
  struct NamedTensor {
    std::size_t item;
    Tensor tensor;
  };
  void convert(OpenedModel& model, const std::vector<std::string>& ids, const std::string& path);
  static void add_settings(const Layer& layer, io::Output& out);
  void add_labels(const Layer& layer, io::Output& out) const;
  bool join();
  bool copy();
  void note_copied_as_is(const io::Contents& contents) const;
};

/// The sources with one layer, or with all of several; nothing if they cannot be opened.
std::optional<Sources> opened_with_layers(RunRequest request) {
  const auto opened = [&]() -> std::optional<Sources> {
    try {
      return Sources(request);
    } catch (const Error&) {
      return std::nullopt;
    }
  };
  if (auto sources = opened()) return sources;
  request.layer = "all", request.same_x = true;
  return opened();
}

/// Whether a file holds a model or tensors of no layer, as opposed to a layer's own file. A
/// checkpoint folder, a NumPy or a safetensors file with one layer counts as the layer's own.
bool holds_model(const io::Contents& contents, const RunRequest& request) {
  constexpr std::string_view formats[] = {"pytorch", "torchscript", "gguf", "onnx"};
  if (is_one_of(contents.format, formats)) return true;
  const std::optional<Sources> sources = opened_with_layers(request);
  if (!sources) return false; // the error is reported when the layer is read
  if (sources->layers().size() > 1) return true;
  if (!sources->found().empty()) return contents.format == "pickle";
  return std::ranges::none_of(contents.tensors, [](const io::Entry& entry) {
    return find_tensor_name(entry.name) || find_stage(entry.name);
  });
}

/// The tensors to convert: all, except those of an ONNX graph that the parts of its layers contain.
std::vector<const io::Entry*> converted_tensors(const io::Contents& contents) {
  std::map<std::string_view, std::size_t> part_numbers; // of later tensors made from the same one
  std::set<std::string_view> seen;
  for (const io::Entry& entry : contents.tensors)
    if (contents.format == "onnx" && !seen.insert(entry.name_in_file()).second)
      part_numbers[entry.name_in_file()] += count_of(entry.shape);
  std::vector<const io::Entry*> all;
  for (const io::Entry& entry : contents.tensors) {
    const auto parts = part_numbers.find(entry.name_in_file());
    const bool first = seen.erase(entry.name_in_file()) > 0;
    if (first && parts != part_numbers.end() && parts->second >= count_of(entry.shape)) continue;
    all.push_back(&entry);
  }
  return all;
}

/// Joins the sources into one file if they are parts of a dump. Returns whether they are.
bool Convert::join() {
  const auto opened = [](const std::string& text) { return io::open(io::parse_source(text).path); };
  const auto of_part = [&](const std::string& text) {
    const bool may_be = text.ends_with(".npz") || text.ends_with(".safetensors");
    return may_be && io::parse_source(text).name.empty() && io::is_shard(opened(text));
  };
  if (std::none_of(request.sources.begin(), request.sources.end(), of_part)) return false;
  std::vector<io::Contents> files;
  for (const std::string& text : request.sources) {
    if (text == "-" || !io::parse_source(text).name.empty())
      throw UsageError(
          fmt::format("'{}' is not a part of a dump; parts are only joined with each other", text));
    files.push_back(opened(text));
  }
  if (mentions(output.path, "{layer}"))
    throw UsageError("parts of a dump are joined into one file: give --output without {layer}");
  if (!request.layer.empty() || !request.settings.empty() || !request.prefix.empty() ||
      !request.naming.empty() || !request.config.empty() || !request.tokens.empty() ||
      !request.key_tokens.empty() || request.dtype || request.has_text())
    throw UsageError("parts of a dump are joined unchanged: options of a layer have no effect; "
                     "give them to `dump`");
  if (!dtype.empty())
    throw UsageError("parts of a dump are joined unchanged: give --dump-dtype to `dump`");
  flush();
  const Stopwatch watch(common.write_s);
  io::join_shards(files, output.path, output.format);
  return true;
}

/// Warns about options of layers that have no effect when all tensors are copied.
void Convert::note_copied_as_is(const io::Contents& contents) const {
  const bool idle_order = request.gguf_order && contents.format != "gguf";
  for (const auto& [given, option] : {std::pair(!request.config.empty(), "--config"),
                                      {request.same_x, "--same-x"},
                                      {idle_order, "--gguf-order"}})
    if (given)
      report_notes({warning(fmt::format("{} has no effect: all tensors of {} are written unchanged",
                                        option, io::shown(contents.name)))},
                   common);
}

/// Copies all tensors of a model under their own names if no layer is chosen. Returns whether it
/// did.
bool Convert::copy() {
  const bool plain = request.sources.size() == 1 && request.layer.empty() &&
                     request.prefix.empty() && request.naming.empty() && request.settings.empty() &&
                     request.tokens.empty() && request.key_tokens.empty() && !request.has_text() &&
                     !mentions(output.path, "{layer}");
  if (!plain || !io::parse_source(request.sources[0]).name.empty()) return false;
  const io::Contents contents =
      io::open(io::parse_source(request.sources[0]).path, {false, request.gguf_order});
  if (!holds_model(contents, request)) return false;
  if (contents.tensors.empty()) fail("{}: contains no tensor", io::shown(contents.name));
  note_copied_as_is(contents);
  io::Output out;
  out.scalars = contents.scalars, out.labels = contents.labels;
  const auto written = [&](const io::Entry& entry) {
    return !dtype.empty() && is_floating(entry.dtype) ? dtype_named(dtype) : entry.dtype;
  };
  const std::vector<const io::Entry*> tensors = converted_tensors(contents);
  for (const io::Entry* entry : tensors)
    out.items.push_back({entry->name, written(*entry), entry->shape});
  flush();
  const Stopwatch watch(common.write_s);
  const std::unique_ptr<io::Writer> writer = io::create(output.path, output.format, out);
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const Tensor tensor = mha::convert(tensors[i]->read(), out.items[i].dtype);
    writer->write(i, 0, tensor.raw(), tensor.count());
  }
  writer->finish();
  return true;
}

/// Adds the settings that differ from the defaults, and the number of heads, which has no default.
void Convert::add_settings(const Layer& layer, io::Output& out) {
  const Settings defaults;
  std::vector<std::pair<std::string, std::string>> scalars;
  if (layer.dims.H > 0) scalars.emplace_back("num_heads", std::to_string(layer.dims.H));
  if (layer.dims.H_kv > 0 && layer.dims.H_kv != layer.dims.H)
    scalars.emplace_back("num_kv_heads", std::to_string(layer.dims.H_kv));
  for (const SettingInfo& info : settings_table()) {
    if (info.name == "num_heads" || info.name == "num_kv_heads") continue;
    if (const std::string value = info.get(layer.settings); value != info.get(defaults))
      scalars.emplace_back(info.name, value);
  }
  if (out.scalars.empty())
    out.scalars = std::move(scalars);
  else if (out.scalars != scalars)
    fail("the layers differ in their settings, which one file cannot hold; use {{layer}} in the "
         "path of --output");
}

void Convert::add_labels(const Layer& layer, io::Output& out) const {
  if (!out.labels.empty()) return; // those of the preceding layer
  if (!layer.item_tokens.empty() || !layer.item_key_tokens.empty()) {
    print_note("labels of batch items are not written: give --tokens with the layer", common,
               Severity::warning);
    return;
  }
  if (!layer.tokens.empty()) out.labels.emplace_back("tokens", layer.tokens);
  if (layer.key_tokens.empty() || layer.key_tokens == layer.tokens) return;
  // Labels of other keys ("[past 0]") are made when the file is read.
  const auto first = layer.key_tokens.begin() + static_cast<std::ptrdiff_t>(layer.dims.past);
  // A layer without an input has as many keys as labels.
  const auto last =
      layer.dims.S > 0 ? first + static_cast<std::ptrdiff_t>(layer.dims.S) : layer.key_tokens.end();
  const std::vector<std::string> current(first, last);
  if (current != layer.tokens) out.labels.emplace_back("key_tokens", current);
}

int Convert::run() {
  if (output.path.empty())
    throw UsageError("convert needs --output: FILE.npz, FILE.safetensors, FILE.json, a folder, or "
                     "- with --format");
  if (join() || copy()) return 0;
  OpenedModel model = open_model(request, common);
  if (!mentions(output.path, "{layer}"))
    convert(model, model.chosen(), output.path);
  else
    for (const std::string& id : model.chosen()) convert(model, {id}, with_layer(output.path, id));
  return 0;
}

void Convert::convert(OpenedModel& model, const std::vector<std::string>& ids,
                      const std::string& path) {
  io::Output out;
  std::vector<Tensor> tensors;
  bool of_text = false;
  for (const std::string& id : ids) {
    std::vector<Sources::SourceTensor> parts;
    const LoadedLayer loaded = load_layer(model, id, common, false, &parts);
    if (!std::exchange(of_text, true)) // every layer has the same
      for (NumbersOfText& numbers : numbers_of_text(loaded.layer, model.texts().get(), {})) {
        Tensor kept(DType::i64, numbers.item.shape);
        std::ranges::copy(numbers.values, kept.as_mutable<std::int64_t>().begin());
        tensors.push_back(std::move(kept));
        out.items.push_back(std::move(numbers.item));
      }
    add_settings(loaded.layer, out);
    add_labels(loaded.layer, out);
    const Stopwatch watch(common.read_s);
    for (Sources::SourceTensor& part : parts) {
      std::string name = ids.size() > 1 ? fmt::format("layers.{}.{}", id, part.name) : part.name;
      const bool rounds = !dtype.empty() && is_floating(part.tensor.dtype());
      tensors.push_back(rounds ? mha::convert(part.tensor, dtype_named(dtype)) : part.tensor);
      out.items.push_back({std::move(name), tensors.back().dtype(), tensors.back().shape()});
    }
  }
  flush();
  const Stopwatch watch(common.write_s);
  const std::unique_ptr<io::Writer> writer = io::create(path, output.format, out);
  for (std::size_t i = 0; i < tensors.size(); ++i)
    writer->write(i, 0, tensors[i].raw(), tensors[i].count());
  writer->finish();
}

} // namespace

Run declare_convert(Cli& cli) {
  const auto convert = std::make_shared<Convert>();
  cli.about(
      "Writes a layer to one file under canonical names: its tensors, the settings that differ "
      "from the defaults, and its labels. Numbers keep their types. Several layers get names such "
      "as layers.N.W_q. Files written by `dump --part I/N` are joined into one, in any order and "
      "format. For a model (a checkpoint folder with several layers, a PyTorch or GGUF file) "
      "without --layer, all tensors are written under their own names.");
  convert->output.allows_any_extension = true;
  add_output(cli, convert->output, {"npz", "npy", "safetensors", "json"},
             "the output: .npz, .safetensors, .json, or a folder of .npy files; {layer} in PATH "
             "writes one file for each layer",
             std::span(all_placeholders).first(1));
  cli.choice("--dump-dtype", {"f64", "f32", "f16", "bf16"}, convert->dtype,
             "round the numbers to this type; default: the type in the files");
  add_layer(cli, convert->request);
  cli.unused({"--dtype"}, [convert] {
    return convert->request.has_text() ? ""
                                       : std::string("has no effect without a computation; "
                                                     "--dump-dtype rounds the written numbers");
  });
  add_common(cli, convert->common, false);
  cli.example("convert data/induction --layer 1 X=data/induction/hidden.npz:layers.1 -o layer.npz",
              "write a layer of a checkpoint and its input to one file");
  cli.example("convert data/bard-gpt2 --dump-dtype f16 -o bard.safetensors",
              "convert a whole model, every tensor under its own name");
  cli.example("convert data/quickstart.json -o quickstart.safetensors",
              "convert a layer to another format");
  return [convert] { return convert->run(); };
}

} // namespace mha::app
