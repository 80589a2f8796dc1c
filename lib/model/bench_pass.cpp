#include <mha/model/bench_pass.hpp>

#include <mha/forward/attention.hpp>
#include <mha/observe/trace.hpp>
#include <mha/system/clock.hpp>

#include <algorithm>
#include <cstring>
#include <numeric>

namespace mha {

namespace {

constexpr double enough_seconds = 2;
constexpr std::size_t fewest_runs = 5;

double median_of(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t n = values.size();
  return (values[(n - 1) / 2] + values[n / 2]) / 2;
}

/// What was measured in each run.
struct Timings {
  std::vector<double> all, ends;
  std::vector<std::vector<ModelPass::LayerTimes>> layers;
};

/// One pass: the logits at the last token of the longest text, or the last stream without a head.
Tensor run_once(const Sources& model, ModelPass& pass, Timings& runs) {
  Tensor result;
  double ends_s = 0;
  const double all = seconds_of([&] {
    pass.rewind();
    Layer ends = pass.ends_after(model, pass.layers().size());
    if (!ends.ends->head.present()) {
      result = ends.ends->stream;
      return;
    }
    ends_s = seconds_of([&] {
      Selection selection;
      selection.query = IndexList(std::to_string(ends.dims.T - 1), "--query");
      result = trace(ends, {Stage::logits}, selection, pass.threads).value(Stage::logits);
    });
  });
  runs.all.push_back(all), runs.ends.push_back(ends_s);
  runs.layers.push_back(pass.times());
  return result;
}

} // namespace

PassSpeed bench_pass(const Sources& model, ModelPass& pass, std::optional<std::size_t> repeat) {
  Timings warm_up, runs;
  const Tensor first = run_once(model, pass, warm_up);
  double spent = 0;
  while (repeat ? runs.all.size() < *repeat
                : spent < enough_seconds || runs.all.size() < fewest_runs) {
    const Tensor again = run_once(model, pass, runs);
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
  speed.tokens = std::accumulate(pass.lengths().begin(), pass.lengths().end(), std::size_t{0});
  for (std::size_t n = 0; n < pass.layers().size(); ++n) {
    const auto of = [&](const auto& seconds) {
      std::vector<double> list;
      for (const auto& run : runs.layers) list.push_back(seconds(run[n]));
      return median_of(std::move(list));
    };
    using Times = ModelPass::LayerTimes;
    speed.layers.push_back({pass.layers()[n], of([](const Times& t) { return t.read; }),
                            of([](const Times& t) { return t.phases.projections; }),
                            of([](const Times& t) { return t.phases.attention; }),
                            of([](const Times& t) { return t.phases.output; }),
                            of([](const Times& t) { return t.phases.around; })});
  }
  return speed;
}

} // namespace mha
