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
    throw UsageError("the pass of a whole model cannot be divided among ranks: choose a --layer");
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
  common.progress = false; // it would be part of the time
  OpenedModel model = open_model(request, common);
  const render::TextStyle text_style = text_style_of_output(common.color);
  const std::string form = form_of(output);
  // A text without a chosen layer or stage: time the whole pass.
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
      "Times a layer in memory by computing it repeatedly, after two warm-up runs (the second "
      "packs the weights, which are kept as for a whole model; --memory 0 packs them in each run). "
      "Prints the median and the best time of each part, GFLOP/s, and the share of this machine's "
      "peak of multiply-adds on as many threads, which is measured between the runs. Every product "
      "counts as 2 m n k operations; attention counts only the keys that causal masks, windows and "
      "kv_lengths leave to a query; softmax, norms and rotations do not count. Every run must give "
      "the same bits as the first, otherwise the exit code is 2. Each stage is compared with a "
      "lower bound on this machine, from multiply-adds, exponentials or the bandwidth of caches "
      "and memory, all measured in the same run. Several layers have one row each, or with "
      "--format json one object with the keys layers.N. With a text and no --layer, the whole pass "
      "is timed, from token numbers to the logits after the last token: tokens per second, and the "
      "parts of every layer.");
  add_stages(cli, bench->stages);
  cli.group("Measuring");
  cli.value("--repeat", "N", bench->repeat,
            "number of timed runs; default: as many as fit into two seconds, at least 5");
  add_output(cli, bench->output, result_formats(), "write to a file");
  add_layer(cli, bench->request);
  add_common(cli, bench->common);
  cli.example("bench data/quickstart.json", "time a layer; only its output is kept");
  cli.example("bench data/quickstart.json --stage weights,output --repeat 20",
              "also keep the weights, which includes the cost of writing them to memory");
  cli.example("bench data/induction --layer all 'X=data/induction/hidden.npz:layers.{layer}' "
              "--repeat 20 --format json",
              "time every layer of a checkpoint; output for another program");
  cli.example("bench data/bard-gpt2 --text 'To be, or not to be' --repeat 5",
              "time a whole model's pass: tokens per second, and the time of its parts");
  return [bench] { return bench->run(); };
}

} // namespace mha::app
