// dump: writes stages to files while they are computed.

#include "commands/commands.hpp"
#include "dump_text.hpp"
#include "earlier_result.hpp"
#include "output.hpp"
#include <mha/formats/formats.hpp>
#include <mha/formats/shard_file.hpp>
#include <mha/layer/fingerprint.hpp>
#include <mha/observe/dump.hpp>
#include <mha/observe/not_finite.hpp>
#include <mha/observe/overflow.hpp>
#include <mha/observe/several.hpp>
#include <mha/ranks/together.hpp>

#include <algorithm>
#include <unordered_map>

namespace mha::app {

namespace {

struct DumpCommand {
  RunRequest request;
  std::vector<std::string> stages;
  Selection selection;
  OutputOptions output;
  std::string dtype;
  std::optional<Shard> part;
  bool resume = false, all_stages = false;
  Common common;

  int run();

private:
  /// The stages and the selection of one layer that one file holds.
  struct LayerInFile {
    std::string layer;
    std::vector<Stage> stages;
    Selection selection;
    std::size_t first_item = 0; ///< index of its first stage among the file's items
    std::size_t offset = 0;     ///< first element of the layer in the item, if layers are stacked
  };
  struct File {
    std::vector<LayerInFile> layers;
    io::Output output;
    std::vector<io::ElementRanges> element_ranges; ///< for each item, the elements this part writes
    /// The items with text lengths and token ids: index in output.items, and values.
    std::vector<std::pair<std::size_t, std::vector<std::int64_t>>> text_items;
    std::unique_ptr<io::Writer> writer;
  };
  using Files = std::vector<std::pair<std::string, File>>;

  void check_options() const;
  void dump(OpenedModel& model, const std::vector<std::string>& ids, bool several_layers);
  void add_layer_to_files(const LoadedLayer& loaded, bool several_layers, Files& files,
                          const Fingerprint& of_layer);
  void stack(const LoadedLayer& loaded, Stage stage, const Shape& shape, std::string name,
             File& file) const;
  void add_text(const LoadedLayer& loaded, const PlannedFile& planned, File& file) const;
  void refuse_unrequested_large_dump(const OpenedModel& model) const;
  void create(Files& files) const;
  void compute_into(LoadedLayer loaded, const ComputeLayer& by, Files& files);
  void report_rounding_overflow(const Dump& written) const;
  Plan plan_of_this_process(const LoadedLayer& loaded, const StageSet& wanted) const;
  bool is_shard() const { return part || world().count() > 1; }
  /// Whether results carry a fingerprint of their inputs: parts, whose inputs must be equal, and
  /// files that --resume may find.
  bool has_fingerprint() const { return is_shard() || mentions(output.path, "{layer}"); }
  DType stored(const Layer& layer, Stage stage) const {
    return dtype.empty() ? layer.dtype_of(stage) : dtype_named(dtype);
  }

  std::vector<std::string> ids_;                            ///< of the chosen layers
  const Texts* texts_ = nullptr;                            ///< of a whole model
  std::unordered_map<std::string, std::size_t> file_index_; ///< position of each path in Files
  Fingerprint run_fingerprint_;      ///< of all results of the run, equal for all parts
  Fingerprint input_fingerprint_;    ///< of what enters the next layer of the text
  std::size_t layers_in_input_ = 0;  ///< number of layers included in input_fingerprint_
  std::vector<std::string> skipped_; ///< layers whose files --resume found complete
  bool skipped_unmarked_ = false;    ///< some lack a fingerprint: they may be of another run
};

void DumpCommand::check_options() const {
  if (output.path.empty())
    throw UsageError(
        "dump needs --output: a folder, FILE.npz, FILE.safetensors, FILE.json, FILE.npy, or - for "
        "standard output");
  if (resume && !mentions(output.path, "{layer}"))
    throw UsageError(fmt::format("--resume computes the layers whose files are missing, so "
                                 "--output needs {{layer}}: 'layer{{layer}}.npz', not '{}'",
                                 output.path));
  if (part && world().count() > 1)
    throw UsageError("--part cannot be used with mpirun, whose ranks already divide the work");
  if (!part && mpirun_without_mpi())
    throw UsageError(
        "mpirun started several processes, but the program is built without MPI "
        "(-DMHA_WITH_MPI=ON), so each would do all the work; give each one --part I/N");
  for (const char* placeholder : {"{layer}", "{batch}", "{head}"})
    if (part && mentions(output.path, placeholder))
      throw UsageError(fmt::format(
          "--part writes one file, which `convert` joins with the others: give --output without {}",
          placeholder));
}

int DumpCommand::run() {
  check_options();
  if (output.path == "-" && output.format.empty()) output.format = "npy";
  if (output.path == "-" && output_is_terminal() && output.format != "json")
    fail("{} is not written to a terminal; pipe it into a program, or give --output a file",
         output.format);
  request.stages = stages, request.shows_ends = true;
  OpenedModel model = open_model(request, common);
  ids_ = model.chosen();
  texts_ = model.texts().get();
  refuse_unrequested_large_dump(model);
  // Layers that share files are dumped together, others one after the other.
  if (mentions(output.path, "{layer}") || ids_.size() == 1)
    for (const std::string& id : ids_) dump(model, {id}, false);
  else
    dump(model, ids_, true);
  if (!skipped_.empty()) print_note(skipped_text(skipped_, ids_.size(), skipped_unmarked_), common);
  return 0;
}

/// Throws UsageError if every stage would take more than 1 GB and neither --stage, --all-stages nor
/// a selection is given.
void DumpCommand::refuse_unrequested_large_dump(const OpenedModel& model) const {
  if (!stages.empty() || all_stages || !selection.empty()) return;
  double bytes = 0;
  for (const std::string& id : ids_) {
    const LoadedLayer loaded = model.outline(id);
    for (Stage stage : stages_of(loaded.layer, {})) {
      double size = static_cast<double>(size_of(stored(loaded.layer, stage)));
      for (std::size_t axis : loaded.layer.shape_of(stage)) size *= static_cast<double>(axis);
      bytes += size;
    }
  }
  if (part) bytes /= static_cast<double>(part->count);
  if (bytes <= 1e9) return;
  // The id "" is that of the embedding and the logits, which are not layers.
  const auto layers = ids_.size() - static_cast<std::size_t>(std::ranges::count(ids_, ""));
  throw UsageError(fmt::format("{}all stages of {} are {:.1f} GB: choose some with --stage, select "
                               "with --head, --query, --key or --batch, or give --all-stages",
                               part ? "this part of " : "",
                               ids_.size() == 1 ? "the layer" : counted(layers, "layers"),
                               bytes / 1e9));
}

void DumpCommand::dump(OpenedModel& model, const std::vector<std::string>& ids,
                       bool several_layers) {
  // All sizes must be known before the first byte is written: layers that share a file are read
  // twice instead of being held together.
  Files files;
  file_index_.clear();
  std::optional<LoadedLayer> only;
  for (const std::string& id : ids) {
    LoadedLayer loaded = load_layer(model, id, common, ids.size() > 1);
    if (has_fingerprint()) {
      model.add_input_of(id, input_fingerprint_, layers_in_input_);
      Fingerprint fingerprint = input_fingerprint_;
      add_to(fingerprint, loaded);
      add_layer_to_files(loaded, several_layers, files, fingerprint);
      if (model.texts()) input_fingerprint_ = fingerprint, ++layers_in_input_;
    } else {
      add_layer_to_files(loaded, several_layers, files, {});
    }
    if (ids.size() == 1) only.emplace(std::move(loaded));
  }
  if (files.empty()) return; // the embedding and the logits have no {head}
  const auto least_complete_result = [&] {
    EarlierResult least = EarlierResult::marked;
    for (const auto& [path, file] : files)
      least = std::min(least, earlier_result(path, file.output));
    return least;
  };
  if (resume) {
    const std::string number =
        world().from_first(std::to_string(static_cast<int>(least_complete_result())));
    const auto found = static_cast<EarlierResult>(std::stoi(number));
    if (found != EarlierResult::none) {
      skipped_.push_back(ids[0]);
      skipped_unmarked_ |= found == EarlierResult::unmarked;
      return;
    }
  }
  require_same_input(world(), run_fingerprint_.text());
  create(files);
  for (const std::string& id : ids) {
    if (!only) {
      const Stopwatch watch(common.read_s);
      only.emplace(model.load(id));
    }
    count_as_computed(model, common);
    compute_into(std::move(*only), model.compute(), files);
    only.reset();
  }
  const Stopwatch watch(common.write_s);
  for (auto& [path, file] : files) file.writer->finish();
}

/// What this process computes: everything, or its shard. The shard number is rotated from layer to
/// layer, so that layers with fewer units than shards do not always leave the same processes idle.
Plan DumpCommand::plan_of_this_process(const LoadedLayer& loaded, const StageSet& wanted) const {
  const Shard mine = part.value_or(world().part());
  const auto number =
      static_cast<std::size_t>(std::find(ids_.begin(), ids_.end(), loaded.id) - ids_.begin());
  const Selection own = selection_of(loaded, selection, ids_.size());
  return shard_of(loaded.layer, make_plan(loaded.layer, wanted, own),
                  {(mine.index + number) % mine.count, mine.count});
}

void DumpCommand::add_layer_to_files(const LoadedLayer& loaded, bool several_layers, Files& files,
                                     const Fingerprint& of_layer) {
  std::vector<Stage> wanted = stages_of(loaded.layer, stages);
  const Selection own = selection_of(loaded, selection, ids_.size());
  if (loaded.id == ids_.front()) note_texts_without_selection(loaded.layer, own, common);
  require_axes(loaded.layer, wanted, own);
  for (PlannedFile& planned : planned_files(output.path, loaded, own, wanted, !stages.empty())) {
    const auto [place, is_new] = file_index_.emplace(planned.path, files.size());
    if (is_new) files.emplace_back(planned.path, File{});
    const auto file = files.begin() + static_cast<std::ptrdiff_t>(place->second);
    io::Output& out = file->second.output;
    Fingerprint fingerprint = of_layer;
    file->second.layers.push_back({loaded.id, wanted, planned.selection, out.items.size()});
    const StageSet set(wanted);
    std::optional<Plan> mine; // whose elements a part file holds; ranks share one file
    if (part) mine = plan_of_this_process(loaded, set);
    // One stage of several layers as .npy: stacked along a leading axis.
    const bool stacked = several_layers && wanted.size() == 1 && !part &&
                         (planned.path.ends_with(".npy") || output.format == "npy");
    for (Stage stage : wanted) {
      std::string name(name_of(stage));
      if (several_layers && !loaded.id.empty()) name = fmt::format("layers.{}.{}", loaded.id, name);
      const Placement placement(loaded.layer, stage, planned.selection);
      if (mine) file->second.element_ranges.push_back(placement.filled_by(loaded.layer, *mine));
      fingerprint.add(name_of(stage));
      for (const SelectedAxis& axis : placement.axes())
        fingerprint.add(axis.pick.indices.data(), axis.pick.indices.size() * sizeof(std::size_t));
      if (stacked) {
        stack(loaded, stage, placement.shape(), std::move(name), file->second);
        continue;
      }
      out.items.push_back({std::move(name), stored(loaded.layer, stage), placement.shape()});
    }
    if (!stacked) add_text(loaded, planned, file->second);
    if (!has_fingerprint()) continue;
    for (const auto* list : {&selection.batch, &selection.head, &selection.query, &selection.key})
      fingerprint.add(*list ? (*list)->text() : "");
    run_fingerprint_.add(fingerprint.text());
    if (mentions(output.path, "{layer}")) out.run = fingerprint.text();
  }
}

/// Adds the text to the file: integers, which the first part writes, and labels. A single .npy
/// cannot hold them.
void DumpCommand::add_text(const LoadedLayer& loaded, const PlannedFile& planned,
                           File& file) const {
  const bool is_npy =
      output.format.empty() ? planned.path.ends_with(".npy") : output.format == "npy";
  if (!file.text_items.empty() || is_npy) return;
  for (NumbersOfText& numbers : numbers_of_text(loaded.layer, texts_, planned.selection)) {
    const Shape& shape = numbers.item.shape;
    if (part)
      file.element_ranges.push_back(part->index == 0 ? io::ElementRanges{{0, count_of(shape)}}
                                                     : io::ElementRanges{});
    file.text_items.emplace_back(file.output.items.size(), std::move(numbers.values));
    file.output.items.push_back(std::move(numbers.item));
  }
  add_labels_of_text(loaded.layer, texts_, planned.selection, file.output);
}

/// Stacks a layer with the others in the only item of a file, along a leading axis.
void DumpCommand::stack(const LoadedLayer& loaded, Stage stage, const Shape& shape,
                        std::string name, File& file) const {
  LayerInFile& in_file = file.layers.back();
  in_file.first_item = 0;
  in_file.offset = (file.layers.size() - 1) * count_of(shape);
  Shape all{ids_.size()};
  all.insert(all.end(), shape.begin(), shape.end());
  if (file.output.items.empty())
    file.output.items.push_back({std::move(name), stored(loaded.layer, stage), all});
  else if (file.output.items[0].shape != all)
    fail("{} of layer {} is {}, of other layers {}: only equal shapes are stacked; dump them as "
         ".npz",
         name, loaded.id, to_string(shape), to_string(file.output.items[0].shape));
}

void DumpCommand::create(Files& files) const {
  flush();
  for (auto& [path, file] : files) {
    if (path == "-" && output.format == "npy" && file.output.items.size() > 1)
      throw UsageError(fmt::format("standard output takes one stage as .npy, not {}; name one with "
                                   "--stage, or give --format npz, safetensors or json",
                                   file.output.items.size()));
    if (part)
      file.writer = io::create_shard(path, output.format, file.output, file.element_ranges,
                                     {run_fingerprint_.text(), part->index, part->count});
    else
      file.writer = create_together(world(), path, output.format, file.output);
    if (part ? part->index != 0 : !world().is_first()) continue;
    for (const auto& [item, numbers] : file.text_items)
      file.writer->write(item, 0, reinterpret_cast<const std::byte*>(numbers.data()),
                         numbers.size());
  }
}

void DumpCommand::compute_into(LoadedLayer loaded, const ComputeLayer& by, Files& files) {
  const Stopwatch watch(common.compute_s);
  std::vector<std::unique_ptr<Dump>> dumps;
  Several all;
  for (auto& [path, file] : files)
    for (const LayerInFile& in_file : file.layers) {
      if (in_file.layer != loaded.id) continue;
      std::vector<Dump::Target> targets;
      for (std::size_t i = 0; i < in_file.stages.size(); ++i)
        targets.push_back({in_file.stages[i], in_file.first_item + i, in_file.offset,
                           stored(loaded.layer, in_file.stages[i])});
      dumps.push_back(
          std::make_unique<Dump>(loaded.layer, targets, in_file.selection, *file.writer));
      all.add(*dumps.back());
    }
  OverflowWatch overflow(loaded.layer);
  const StageSet written = all.wants();
  if (contains(written, Stage::weights)) all.add(overflow);
  const Plan mine = plan_of_this_process(loaded, all.wants());
  // A copy for the check for non-finite results: weights of a model's ends were not checked at
  // load, and a derived stage is made of more than its layer.
  Layer checked;
  std::optional<Summaries> summaries;
  if (loaded.layer.ends || std::ranges::any_of(written, is_derived))
    all.add(summaries.emplace(checked = loaded.layer, written, Selection()));
  by(std::move(loaded.layer), mine, all, common.threads);
  Message problem = overflow.report_without_layer();
  if (problem.empty())
    problem =
        not_finite_results(checked, written, [&](Stage stage) { return summaries->of(stage); });
  report_overflow(problem, common);
  for (const auto& dump : dumps) report_rounding_overflow(*dump);
}

/// Reports numbers that became infinite when they were rounded to --dump-dtype; with --strict this
/// is an error, and no file is written.
void DumpCommand::report_rounding_overflow(const Dump& written) const {
  for (const auto& [stage, count] : written.overflowed()) {
    const std::string note = fmt::format(
        "{}: {} {} beyond {} and became infinite; bf16 and f32 have a larger range", name_of(stage),
        counted(count, "numbers"), count == 1 ? "is" : "are", name_of(dtype_named(dtype)));
    if (common.strict) fail("--dump-dtype {}: {} (an error by --strict)", dtype, note);
    print_note(note, common);
  }
}

} // namespace

Run declare_dump(Cli& cli) {
  const auto dump = std::make_shared<DumpCommand>();
  cli.about("Writes stages to files while they are computed, so memory use does not grow with the "
            "maps. Without --stage, write every stage of the layer is written. The extension of "
            "PATH determines the format; a path without one is a folder of .npy files. Several "
            "layers in one file are named layers.N.STAGE.");
  add_stages(cli, dump->stages);
  add_selection(cli, dump->selection);
  dump->output.allows_any_extension = true;
  add_output(cli, dump->output, {"npz", "npy", "safetensors", "json"},
             "the output: a folder, .npz, .safetensors, .json, .npy, or - for standard output; "
             "{layer}, {batch} and {head} in PATH write one file for each",
             all_placeholders);
  cli.choice("--dump-dtype", {"f64", "f32", "f16", "bf16"}, dump->dtype,
             "round the numbers to this type; default: the computed type");
  cli.flag("--all-stages", dump->all_stages, "write every stage, even if that is more than 1 GB");
  cli.group("Long runs");
  cli.flag("--resume", dump->resume, "with {layer} in PATH: skip layers whose files are complete");
  add_part(cli, dump->part);
  add_layer(cli, dump->request);
  add_common(cli, dump->common);
  cli.example("dump data/quickstart.json -o stages.npz", "every stage");
  cli.example("dump data/quickstart.json -s q,k,weights -o stages.safetensors --dump-dtype f16",
              "write some stages in half precision");
  cli.example("dump data/quickstart.json -s weights -o 'head{head}.npy'",
              "write one file for each head");
  cli.example(
      "dump data/induction --layer all 'X=data/induction/hidden.npz:layers.{layer}' -o stages.npz",
      "write every layer of a checkpoint, as layers.N.STAGE");
  cli.example("dump data/induction --layer all 'X=data/induction/hidden.npz:layers.{layer}' "
              "-o 'layer{layer}.npz' --resume",
              "write one file for each layer; run again, it continues with the missing ones");
  cli.example("dump data/quickstart.json --part 1/2 -o part1.npz",
              "do the first half of the work; `convert part1.npz part2.npz -o all.npz` joins both");
  cli.example("dump data/quickstart.json -s output -o - > output.npy",
              "write one stage to standard output");
  return [dump] { return dump->run(); };
}

} // namespace mha::app
