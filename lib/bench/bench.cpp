#include <mha/bench/bench.hpp>

#include <mha/bench/runs.hpp>
#include <mha/observe/trace.hpp>
#include <mha/schedule/times.hpp>
#include <mha/schedule/weight.hpp>
#include <mha/system/clock.hpp>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <tuple>

namespace mha {

namespace {

/// How often the peak is measured, evenly between the runs.
constexpr std::size_t peak_rounds = 5;

/// The seconds of every run.
struct Seconds {
  ByPhase<std::vector<double>> phases;
  std::vector<double> all;
  std::vector<StageSeconds> stages;
};

PhaseSpeed speed_of(std::vector<double> seconds, double operations) {
  const double best = std::ranges::min(seconds);
  return {median_of(std::move(seconds)), best, operations};
}

template <class T> class Bench {
public:
  Bench(const Layer& layer, const BenchRequest& request)
      : layer_(layer),
        request_(request),
        ranks_(request.ranks ? *request.ranks : alone_),
        threads_(request.threads == 0 ? threads_for(layer) : request.threads) {
    if (!layer_.kept) layer_.kept = std::make_shared<KeptWeights>(request.memory);
  }

  Speed measure();

private:
  Trace run_once(Seconds& seconds);
  void require_same_bits(const Trace& first, const Trace& run, std::size_t number) const;
  Roofline roofline_of(Machine<T>& machine, const StageSeconds& seconds, const Trace& kept) const;
  Plan plan_of(const Trace& kept) const {
    return shard_of(layer_, make_plan(layer_, kept.wants()), ranks_.part());
  }

  Ranks alone_;
  Layer layer_;
  const BenchRequest& request_;
  Ranks& ranks_;
  std::size_t threads_;
};

/// One run, from the layer to the kept stages.
template <class T> Trace Bench<T>::run_once(Seconds& seconds) {
  std::optional<Trace> kept;
  PhaseTimes times;
  ranks_.meet();
  const double all = seconds_of([&] {
    kept.emplace(layer_, request_.kept);
    times = compute(layer_, plan_of(*kept), *kept, threads_);
  });
  seconds.all.push_back(ranks_.largest(all));
  for (const Phase phase : phases)
    seconds.phases[phase].push_back(ranks_.largest(times.seconds[phase]));
  seconds.stages.push_back(times.stages);
  return std::move(*kept);
}

template <class T>
void Bench<T>::require_same_bits(const Trace& first, const Trace& run, std::size_t number) const {
  const Plan plan = plan_of(run);
  for (Stage stage : request_.kept) {
    const Tensor &expected = first.value(stage), &found = run.value(stage);
    for (const auto& [offset, count] : run.placement(stage).filled_by(layer_, plan))
      if (std::memcmp(expected.raw() + offset * sizeof(T), found.raw() + offset * sizeof(T),
                      count * sizeof(T)) != 0)
        fail("{} of run {} differs from the first run's: this machine, or this program, does not "
             "compute reliably",
             name_of(stage), number);
  }
}

/// The stages, each with `seconds` of one thread, compared with the machine.
template <class T> Roofline Bench<T>::roofline_of(Machine<T>& machine, const StageSeconds& seconds,
                                                  const Trace& kept) const {
  const StageWork work = work_of(layer_, make_plan(layer_, kept.wants()));
  std::vector<StageSpeed> stages = timed_stages(seconds, work);
  for (StageSpeed& stage : stages)
    if (contains(kept.wants(), stage.stage))
      stage.kept_bytes = ranks_.sum(static_cast<double>(kept.value(stage.stage).bytes()));
  return roofline(machine, std::move(stages), ranks_);
}

template <class T> Speed Bench<T>::measure() {
  Speed speed;
  speed.threads = static_cast<std::size_t>(ranks_.sum(static_cast<double>(threads_)));
  speed.dtype = layer_.dtype;
  speed.kept = request_.kept;

  Seconds warm_up, seconds;
  const Trace first = run_once(warm_up);
  require_same_bits(first, run_once(warm_up), 2);
  Machine<T> machine(threads_);
  double run_s = 0;
  std::size_t peaks = 0;
  const auto progress = [&] { // 0 … 1
    const auto runs = static_cast<double>(speed.runs);
    if (request_.repeat) return runs / static_cast<double>(*request_.repeat);
    return std::min(run_s / enough_seconds, runs / static_cast<double>(fewest_runs));
  };
  const auto measure_peak = [&] {
    machine.measure_products();
    ++peaks;
  };
  while (progress() < 1) {
    if (progress() * (peak_rounds - 1) >= static_cast<double>(peaks)) measure_peak();
    const Trace run = run_once(seconds);
    ++speed.runs;
    run_s += seconds.all.back();
    require_same_bits(first, run, speed.runs + 2);
  }
  measure_peak();

  const ByPhase<double> operations =
      operations_of(work_of(layer_, make_plan(layer_, first.wants())));
  for (const Phase phase : phases)
    speed.phases[phase] = speed_of(seconds.phases[phase], operations[phase]);
  speed.computed = warm_up.all.size() + seconds.all.size();
  speed.all = speed_of(seconds.all, std::reduce(operations.begin(), operations.end()));
  StageSeconds stages = median_of(seconds.stages);
  for (double& stage : stages) stage = ranks_.sum(stage) / static_cast<double>(speed.threads);
  speed.roofline = roofline_of(machine, stages, first);
  return speed;
}

} // namespace

Speed bench(const Layer& layer, const BenchRequest& request) {
  return layer.dtype == DType::f64 ? Bench<double>(layer, request).measure()
                                   : Bench<float>(layer, request).measure();
}

} // namespace mha
