#include <mha/bench/bench.hpp>

#include <mha/bench/runs.hpp>
#include <mha/model/run.hpp>
#include <mha/observe/compute.hpp>
#include <mha/observe/trace.hpp>
#include <mha/system/clock.hpp>
#include <mha/tensor/precision.hpp>

#include <algorithm>
#include <cstring>

namespace mha {

namespace {

/// The times of each run.
struct Timings {
  std::vector<double> all, logits;
  std::vector<std::vector<PhaseTimes>> layers;
};

/// The positions that logits are computed for: the last of the longest text.
Selection last_query(const Layer& ends) {
  Selection selection;
  selection.query = IndexList::of_indices({ends.dims.T - 1}, message("<query>"));
  return selection;
}

/// One pass: the logits at the last token of the longest text, or the last stream without a head.
Tensor run_once(const TextLayers& layers, std::size_t threads, Timings& runs) {
  Tensor result;
  double logits_s = 0;
  std::vector<PhaseTimes> times;
  Advance each;
  each.threads = threads;
  each.timed = [&](std::size_t, const LayerTimes& of_layer) { times.push_back(of_layer.phases); };
  const double all = seconds_of([&] {
    const Residual begin{layers.texts().embedded(), 0};
    const Layer ends = layers.ends(advance(layers, begin, layers.count(), each).x);
    if (!ends.ends->head.present()) {
      result = ends.ends->stream;
      return;
    }
    logits_s = seconds_of([&] {
      result = trace(ends, {Stage::logits}, last_query(ends), threads).value(Stage::logits);
    });
  });
  runs.all.push_back(all), runs.logits.push_back(logits_s);
  runs.layers.push_back(std::move(times));
  return result;
}

/// The medians of a layer's phases.
ByPhase<double> phases_of_layer(const Timings& runs, std::size_t n) {
  ByPhase<double> medians;
  for (const Phase phase : phases) {
    std::vector<double> list;
    for (const auto& run : runs.layers) list.push_back(run[n].seconds[phase]);
    medians[phase] = median_of(std::move(list));
  }
  return medians;
}

/// The work of all layers together, and of the logits.
StageWork work_of_pass(const TextLayers& layers, bool logits) {
  StageWork sum{};
  const auto add = [&](const Layer& layer, Stage wanted, const Selection& selection) {
    const StageWork work = work_of(layer, make_plan(layer, StageSet{wanted}, selection));
    for (std::size_t i = 0; i < stage_count; ++i) {
      sum[i].operations += work[i].operations;
      sum[i].exponentials += work[i].exponentials;
      sum[i].read_bytes += work[i].read_bytes;
    }
  };
  const Tensor stream = layers.embedded().x;
  for (std::size_t n = 0; n < layers.count(); ++n) add(layers.sized(n), Stage::resid_post, {});
  const Layer ends = layers.ends(stream);
  if (logits) add(ends, Stage::logits, last_query(ends));
  return sum;
}

/// Seconds of one thread in a run: the stages of all layers together.
StageSeconds seconds_of_stages(const Timings& timings, std::size_t threads) {
  std::vector<StageSeconds> runs;
  for (const auto& layers : timings.layers) {
    StageSeconds& sum = runs.emplace_back();
    for (const PhaseTimes& layer : layers)
      for (std::size_t i = 0; i < stage_count; ++i)
        sum[i] += layer.stages[i] / static_cast<double>(threads);
  }
  return median_of(runs);
}

template <class T> PassSpeed measure(const TextLayers& layers, std::size_t threads,
                                     std::optional<std::size_t> repeat) {
  PassSpeed speed;
  for (std::size_t n = 0; n < layers.count(); ++n)
    speed.layers.push_back(
        {layers.texts().layers()[n], seconds_of([&] { static_cast<void>(layers.sized(n)); }), {}});
  if (threads == 0) threads = threads_for(layers.sized(0));
  Timings warm_up, runs;
  const Tensor first = run_once(layers, threads, warm_up);
  Machine<T> machine(threads);
  double spent = 0;
  while (repeat ? runs.all.size() < *repeat
                : spent < enough_seconds || runs.all.size() < fewest_runs) {
    machine.measure_products();
    const Tensor again = run_once(layers, threads, runs);
    spent += runs.all.back();
    if (std::memcmp(first.raw(), again.raw(), first.bytes()) != 0)
      fail("run {} gives other numbers than the first: this machine, or this program, does not "
           "compute reliably",
           runs.all.size() + 1);
  }
  speed.runs = runs.all.size();
  speed.median_s = median_of(runs.all);
  speed.best_s = *std::min_element(runs.all.begin(), runs.all.end());
  speed.logits_s = median_of(runs.logits);
  speed.tokens = layers.texts().tokens();
  for (std::size_t n = 0; n < layers.count(); ++n)
    speed.layers[n].phases = phases_of_layer(runs, n);

  StageSeconds stages = seconds_of_stages(runs, threads);
  stages[index_of(Stage::logits)] = speed.logits_s;
  Ranks alone;
  speed.roofline =
      roofline(machine, timed_stages(stages, work_of_pass(layers, speed.logits_s > 0)), alone);
  return speed;
}

} // namespace

PassSpeed bench_pass(const OpenedModel& model, std::optional<std::size_t> repeat) {
  const std::shared_ptr<const TextLayers> layers = model.text_layers();
  return by_precision(model.texts()->weights()->dtype(),
                      [&]<class T>(T) { return measure<T>(*layers, model.threads, repeat); });
}

} // namespace mha
