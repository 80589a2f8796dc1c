#include <mha/bench/pass.hpp>

#include <mha/bench/runs.hpp>
#include <mha/forward/attention.hpp>
#include <mha/observe/trace.hpp>
#include <mha/system/clock.hpp>
#include <mha/tensor/precision.hpp>

#include <algorithm>
#include <cstring>

namespace mha {

namespace {

/// What was measured in each run.
struct Timings {
  std::vector<double> all, ends;
  std::vector<std::vector<OpenedModel::LayerTimes>> layers;
};

/// The positions that logits are computed for: the last of the longest text.
Selection last_query(const Layer& ends) {
  Selection selection;
  selection.query = IndexList::of_indices({ends.dims.T - 1}, message("<query>"));
  return selection;
}

/// One pass: the logits at the last token of the longest text, or the last stream without a head.
Tensor run_once(OpenedModel& model, Timings& runs) {
  Tensor result;
  double ends_s = 0;
  const double all = seconds_of([&] {
    model.rewind();
    const Layer ends = model.ends_after(model.texts()->layers().size()).layer;
    if (!ends.ends->head.present()) {
      result = ends.ends->stream;
      return;
    }
    ends_s = seconds_of([&] {
      result = trace(ends, {Stage::logits}, last_query(ends), model.threads).value(Stage::logits);
    });
  });
  runs.all.push_back(all), runs.ends.push_back(ends_s);
  runs.layers.push_back(model.times());
  return result;
}

/// The medians of a layer's phases.
LayerSeconds layer_seconds(const Timings& runs, const std::string& id, std::size_t n) {
  const auto of = [&](const auto& seconds) {
    std::vector<double> list;
    for (const auto& run : runs.layers) list.push_back(seconds(run[n]));
    return median_of(std::move(list));
  };
  using Times = OpenedModel::LayerTimes;
  LayerSeconds medians{id, of([](const Times& times) { return times.read; }), {}};
  for (const Phase phase : phases)
    medians.phases[phase] = of([&](const Times& times) { return times.phases.seconds[phase]; });
  return medians;
}

/// The work of all layers together, and of the logits.
StageWork work_of_pass(OpenedModel& model, bool logits) {
  StageWork sum{};
  const auto add = [&](const Layer& layer, Stage wanted, const Selection& selection) {
    const StageWork work = work_of(layer, make_plan(layer, StageSet{wanted}, selection));
    for (std::size_t i = 0; i < stage_count; ++i) {
      sum[i].operations += work[i].operations;
      sum[i].exponentials += work[i].exponentials;
      sum[i].read_bytes += work[i].read_bytes;
    }
  };
  const std::vector<std::string>& layers = model.texts()->layers();
  for (const std::string& id : layers) add(model.outline(id).layer, Stage::resid_post, {});
  if (logits) {
    const Layer ends = model.ends_after(layers.size()).layer;
    add(ends, Stage::logits, last_query(ends));
  }
  return sum;
}

/// Seconds of one thread in a run: the stages of all layers together.
StageSeconds seconds_of_stages(const Timings& timings, std::size_t threads) {
  std::vector<StageSeconds> runs;
  for (const auto& layers : timings.layers) {
    StageSeconds& sum = runs.emplace_back();
    for (const OpenedModel::LayerTimes& layer : layers)
      for (std::size_t i = 0; i < stage_count; ++i)
        sum[i] += layer.phases.stages[i] / static_cast<double>(threads);
  }
  return median_of(runs);
}

template <class T> PassSpeed measure(OpenedModel& model, std::optional<std::size_t> repeat) {
  const Texts& texts = *model.texts();
  const std::size_t threads =
      model.threads == 0 ? threads_for(model.outline(texts.layers()[0]).layer) : model.threads;
  Timings warm_up, runs;
  const Tensor first = run_once(model, warm_up);
  Machine<T> machine(threads);
  double spent = 0;
  while (repeat ? runs.all.size() < *repeat
                : spent < enough_seconds || runs.all.size() < fewest_runs) {
    machine.measure_products();
    const Tensor again = run_once(model, runs);
    spent += runs.all.back();
    if (std::memcmp(first.raw(), again.raw(), first.bytes()) != 0)
      fail("run {} gives other numbers than the first: this machine, or this program, does not "
           "compute reliably",
           runs.all.size() + 1);
  }
  PassSpeed speed;
  speed.runs = runs.all.size();
  speed.median_s = median_of(runs.all);
  speed.best_s = *std::min_element(runs.all.begin(), runs.all.end());
  speed.ends = median_of(runs.ends);
  speed.tokens = texts.tokens();
  for (std::size_t n = 0; n < texts.layers().size(); ++n)
    speed.layers.push_back(layer_seconds(runs, texts.layers()[n], n));

  StageSeconds stages = seconds_of_stages(runs, threads);
  stages[index_of(Stage::logits)] = speed.ends;
  Ranks alone;
  speed.roofline =
      roofline(machine, timed_stages(stages, work_of_pass(model, speed.ends > 0)), alone);
  return speed;
}

} // namespace

PassSpeed bench_pass(OpenedModel& model, std::optional<std::size_t> repeat) {
  return by_precision(model.texts()->weights()->dtype(),
                      [&]<class T>(T) { return measure<T>(model, repeat); });
}

} // namespace mha
