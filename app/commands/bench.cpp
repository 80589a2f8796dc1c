// bench: times the computation of a layer in memory.

#include "commands/commands.hpp"
#include "describe.hpp"
#include "output.hpp"
#include "process.hpp"
#include <mha/render/bench.hpp>

namespace mha::app {

namespace {

struct BenchCommand {
  RunRequest request;
  std::vector<std::string> stages;
  std::optional<std::size_t> repeat;
  OutputOptions output;
  Common common;

  int run();
  int time_pass(OpenedModel& model, const render::TextStyle& text_style);
};

int BenchCommand::time_pass(OpenedModel& model, const render::TextStyle& text_style) {
  if (world().count() > 1)
    throw UsageError("the pass over a whole model is not shared by ranks: choose a --layer");
  report_notes(model.texts()->notes(), common);
  PassSpeed speed;
  {
    const Stopwatch watch(common.compute_s);
    speed = bench_pass(model, repeat);
  }
  {
    const Stopwatch watch(common.write_s);
    const std::string form = form_of(output);
    write_text(output.path, (form == "table" ? render::visible(model.title()) + "\n\n" : "") +
                                render::pass_text(speed, form, text_style));
  }
  return 0;
}

int BenchCommand::run() {
  if (repeat == std::size_t{0}) throw UsageError("--repeat is 0: at least 1 expected");
  keep_freed_memory();
  common.progress = false; // it would be timed, too
  OpenedModel model = open_model(request, common);
  const render::TextStyle text_style = text_style_of_output(common.color);
  const std::string form = form_of(output);
  // A text and nothing chosen of its model: the whole pass.
  if (model.texts() && stages.empty() && request.layer.empty() && request.prefix.empty())
    return time_pass(model, text_style);
  if (stages.empty()) stages = {"output"};

  std::vector<render::SpeedRow> rows;
  std::string above;
  for (const std::string& id : model.chosen()) {
    const LoadedLayer loaded = load_layer(model, id, common);
    const std::vector<Stage> kept = stages_of(loaded.layer, stages);
    const Stopwatch watch(common.compute_s);
    rows.push_back({id, bench(loaded.layer, {.kept = kept,
                                             .repeat = repeat,
                                             .threads = common.threads,
                                             .memory = request.memory,
                                             .ranks = &world()})});
    model.sources().counts()->computed += rows.back().speed.computed;
    if (model.chosen().size() == 1 && form == "table")
      above = headline(model, loaded, text_style) + "\n";
  }
  if (world().is_first()) {
    const Stopwatch watch(common.write_s);
    write_text(output.path, above + render::speeds_text(rows, form, text_style));
  }
  return 0;
}

} // namespace

Run declare_bench(Cli& cli) {
  const auto bench = std::make_shared<BenchCommand>();
  cli.about(
      "Computes a layer in memory again and again, after two runs that do not count (the second "
      "packs the weights, which are kept as those of a model are; --memory 0 packs at each run), "
      "and tells "
      "the median and the best time of its parts, GFLOP/s, and what share that is of this "
      "machine's peak of multiply-adds on as many threads, measured between the runs. "
      "Counted are 2 m n k operations of every product, of attention's only the keys that causal, "
      "windows and kv_lengths leave a query; softmax, norms and rotations count nothing. Each run "
      "must give the bits of the first, or the exit code is 2. Each stage stands beside the least "
      "that it can take here: by multiply-adds, exponentials, or the bandwidth of caches and "
      "memory, all measured in the same run. Several layers are a row each; with "
      "--format json, one object keyed by layers.N. With a text and no --layer, the whole pass is "
      "timed, from token numbers to the logits behind the last one: tokens a second, and "
      "the parts of every layer.");
  add_stages(cli, bench->stages);
  cli.group("Measuring");
  cli.value("--repeat", "N", bench->repeat,
            "runs that count; default: as many as fit into two seconds, at least 5");
  add_output(cli, bench->output, result_formats(), "write to a file");
  add_layer(cli, bench->request);
  add_common(cli, bench->common);
  cli.example("bench data/quickstart.json", "the output alone is computed and kept");
  cli.example("bench data/quickstart.json --stage weights,output --repeat 20",
              "the maps are kept, too: what writing them to memory costs");
  cli.example("bench data/induction --layer all 'X=data/induction/hidden.npz:layers.{layer}' "
              "--repeat 20 --format json",
              "every layer of a checkpoint, for another program");
  cli.example("bench data/bard-gpt2 --text 'To be, or not to be' --repeat 5",
              "a whole model's pass: tokens a second, and where the time goes");
  return [bench] { return bench->run(); };
}

} // namespace mha::app
