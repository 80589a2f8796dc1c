// dump: stages to files, streamed while they are computed.

#include "observe/dump.hpp"
#include "commands/commands.hpp"
#include "observe/several.hpp"
#include "output.hpp"

#include <algorithm>

namespace mha::app {

namespace {

struct DumpCommand {
  Request request;
  std::vector<std::string> stages;
  Selection selection;
  OutputOptions output;
  std::string dtype;
  Common common;

  int run();

private:
  /// What one file gets of one layer.
  struct Share {
    std::string layer;
    std::vector<Stage> stages;
    Selection selection;
    std::size_t first_item = 0; ///< of its stages, in the file
  };
  struct File {
    std::vector<Share> shares;
    io::Output output;
    std::unique_ptr<io::Writer> writer;
  };
  using Files = std::vector<std::pair<std::string, File>>;

  void dump(const Model& model, const std::vector<std::string>& ids, bool several_layers);
  void plan(const LoadedLayer& loaded, bool several_layers, Files& files) const;
  void create(Files& files) const;
  void compute_into(const LoadedLayer& loaded, Files& files);
  DType stored(const Layer& layer) const {
    return dtype.empty() ? layer.dtype : dtype_named(dtype);
  }
};

int DumpCommand::run() {
  if (output.path.empty())
    throw UsageError(
        "dump needs --output: a folder, FILE.npz, FILE.safetensors, FILE.json, FILE.npy, or - for "
        "standard output");
  if (output.path == "-" && output.format.empty()) output.format = "npy";
  if (output.path == "-" && output_is_terminal() && output.format != "json")
    fail("bytes of {} do not belong on a terminal; pipe them on, or give --output a file",
         output.format);
  std::optional<Model> model;
  {
    const Stopwatch watch(common.read_s);
    model.emplace(request);
  }
  const std::vector<std::string>& ids = model->chosen();
  // Layers that share files are dumped together, others one after the other.
  if (mentions(output.path, "{layer}") || ids.size() == 1)
    for (const std::string& id : ids) dump(*model, {id}, false);
  else
    dump(*model, ids, true);
  report_timings(common);
  return 0;
}

void DumpCommand::dump(const Model& model, const std::vector<std::string>& ids,
                       bool several_layers) {
  // Every size is known before the first byte: layers that share a file are read twice, never held
  // together.
  Files files;
  std::optional<LoadedLayer> only;
  for (const std::string& id : ids) {
    LoadedLayer loaded = load_layer(model, id, common);
    plan(loaded, several_layers, files);
    if (ids.size() == 1) only.emplace(std::move(loaded));
  }
  create(files);
  for (const std::string& id : ids) {
    if (only) {
      compute_into(*only, files);
      continue;
    }
    const LoadedLayer loaded = [&] {
      const Stopwatch watch(common.read_s);
      return model.load(id);
    }();
    compute_into(loaded, files);
  }
  const Stopwatch watch(common.write_s);
  for (auto& [path, file] : files) file.writer->finish();
}

void DumpCommand::plan(const LoadedLayer& loaded, bool several_layers, Files& files) const {
  std::vector<Stage> wanted = stages_of(loaded.layer, stages);
  require_axes(loaded.layer, wanted, selection);
  for (Piece& piece : pieces_of(output.path, loaded, selection, wanted, !stages.empty())) {
    auto file = std::find_if(files.begin(), files.end(),
                             [&](const auto& entry) { return entry.first == piece.path; });
    if (file == files.end()) file = files.emplace(files.end(), piece.path, File{});
    io::Output& out = file->second.output;
    file->second.shares.push_back({loaded.id, wanted, piece.selection, out.items.size()});
    for (Stage stage : wanted) {
      std::string name(name_of(stage));
      if (several_layers) name = fmt::format("layers.{}.{}", loaded.id, name);
      out.items.push_back({std::move(name), stored(loaded.layer),
                           Placement(loaded.layer, stage, piece.selection).shape()});
    }
  }
}

void DumpCommand::create(Files& files) const {
  flush();
  for (auto& [path, file] : files) {
    if (path == "-" && output.format == "npy" && file.output.items.size() > 1)
      throw UsageError(fmt::format(
          "standard output takes one stage as .npy, these are {}; name one with --stage, or "
          "give --format npz, safetensors or json",
          file.output.items.size()));
    file.writer = io::create(path, output.format, file.output);
  }
}

void DumpCommand::compute_into(const LoadedLayer& loaded, Files& files) {
  const Stopwatch watch(common.compute_s);
  std::vector<std::unique_ptr<Dump>> dumps;
  Several all;
  for (auto& [path, file] : files)
    for (const Share& share : file.shares) {
      if (share.layer != loaded.id) continue;
      std::vector<Dump::Target> targets;
      for (std::size_t i = 0; i < share.stages.size(); ++i)
        targets.push_back({share.stages[i], share.first_item + i});
      dumps.push_back(std::make_unique<Dump>(loaded.layer, targets, share.selection,
                                             stored(loaded.layer), *file.writer));
      all.add(*dumps.back());
    }
  compute(loaded.layer, make_plan(loaded.layer, all.wants(), selection), all, common.threads);
}

} // namespace

Run declare_dump(Cli& cli) {
  const auto dump = std::make_shared<DumpCommand>();
  cli.about("Writes stages to files while they are computed, so that memory does not grow with the "
            "maps. Without "
            "--stage: every stage that the layer has. The extension of PATH decides the format; a "
            "path without one "
            "is a folder of .npy files. Several layers in one file are named layers.N.STAGE.");
  add_stages(cli, dump->stages);
  add_selection(cli, dump->selection);
  add_output(cli, dump->output, {"npz", "npy", "safetensors", "json"},
             "where to: a folder, .npz, .safetensors, .json, .npy, or - for standard output; "
             "{layer}, {batch} and "
             "{head} in PATH write one file each");
  cli.choice("--dump-dtype", {"f64", "f32", "f16", "bf16"}, dump->dtype,
             "round the numbers to this type; default: as computed");
  add_layer(cli, dump->request);
  add_common(cli, dump->common);
  cli.example("dump data/quickstart.json -o stages.npz", "every stage");
  cli.example("dump data/quickstart.json -s q,k,weights -o stages.safetensors --dump-dtype f16",
              "some, in half precision");
  cli.example("dump data/quickstart.json -s weights -o 'head{head}.npy'", "one file per head");
  cli.example(
      "dump data/induction --layer all 'X=data/induction/hidden.npz:layers.{layer}' -o stages.npz",
      "every layer of a checkpoint, as layers.N.STAGE");
  cli.example("dump data/quickstart.json -s output -o - > output.npy",
              "one stage on standard output");
  return [dump] { return dump->run(); };
}

} // namespace mha::app
