#include <mha/bench/bench.hpp>

#include <mha/kernels/bf16x3_kernels.hpp>
#include <mha/kernels/dispatch.hpp>
#include <mha/observe/trace.hpp>
#include <mha/schedule/tiles.hpp>
#include <mha/schedule/visible.hpp>
#include <mha/system/clock.hpp>
#include <mha/system/parallel.hpp>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <functional>
#include <map>
#include <numeric>
#include <type_traits>

namespace mha {

namespace {

/// Runs go on for this long, unless their number is given, and there are at least so many.
constexpr double enough_seconds = 2;
constexpr std::size_t fewest_runs = 5;
/// How often the peak is measured, evenly between the runs.
constexpr std::size_t peak_rounds = 5;

template <class... Sizes> double product_operations(Sizes... sizes) {
  return 2 * (static_cast<double>(sizes) * ...);
}

/// The (query, key) pairs of the plan's blocks that no position hides.
double visible_pairs(const Layer& layer, const Plan& plan) {
  std::map<std::pair<std::size_t, std::size_t>, std::size_t> pairs; // of a batch item and a block
  std::size_t all = 0;
  for (const QueryBlock& block : plan.blocks) {
    const auto [entry, added] = pairs.try_emplace({block.batch, block.block}, 0);
    const Tile rows = block_rows(layer, block);
    for (std::size_t t = rows.first; added && t < rows.first + rows.count; ++t) {
      const Visible visible = visible_keys(layer, block.batch, t);
      entry->second += visible.last - visible.first + layer.dims.extra + layer.dims.zero;
    }
    all += entry->second;
  }
  return static_cast<double>(all);
}

/// The rows of some runs, each counted once a head.
double rows_of_heads(const std::vector<Tile>& runs) {
  std::size_t rows = 0;
  for (const Tile& run : runs) rows += run.count * (run.heads.last - run.heads.first);
  return static_cast<double>(rows);
}

/// What the machine can do: multiply-adds of the unit that multiplies, in registers, on as many
/// threads as the layer has.
template <class T> class Peak {
public:
  /// More threads than cores would make nothing faster.
  explicit Peak(std::size_t threads) : threads_(std::min(threads, core_count())) {}

  void measure() {
    constexpr std::size_t shares = 8; // of each thread, so that they end together
    std::vector<std::size_t> done(threads_ * shares);
    const double seconds = seconds_of([&] {
      parallel_for(done.size(), threads_, [&](std::size_t i) {
        const auto end = Clock::now() + std::chrono::milliseconds(2);
        while (Clock::now() < end) done[i] += multiply_adds();
      });
    });
    rate_ =
        std::max(rate_, 2.0 * static_cast<double>(std::reduce(done.begin(), done.end())) / seconds);
  }
  /// Operations a second, the best so far.
  double rate() const { return rate_; }

private:
  using Clock = std::chrono::steady_clock;

  static std::size_t multiply_adds() {
    constexpr std::size_t rounds = 20'000;
    alignas(64) T sums[64 / sizeof(T)];
    if constexpr (std::is_same_v<T, float>)
      if (const Bf16x3Kernels* units = bf16x3_kernels())
        return units->multiply_adds(rounds / 50, sums);
    return kernels<T>().multiply_adds(rounds, sums);
  }

  std::size_t threads_;
  double rate_ = 0;
};

template <class T> std::string unit_in_use() {
  if (std::is_same_v<T, float> && bf16x3_kernels()) return "amx, bfloat16 × 3";
  return kernels<T>().name;
}

/// The seconds of every run.
struct Seconds {
  std::vector<double> projections, attention, output, around, all;
  StageSeconds stages{};
};

PhaseSpeed speed_of(std::vector<double> seconds, double operations) {
  std::sort(seconds.begin(), seconds.end());
  const std::size_t n = seconds.size();
  return {(seconds[(n - 1) / 2] + seconds[n / 2]) / 2, seconds[0], operations};
}

template <class T> class Bench {
public:
  Bench(const Layer& layer, const BenchRequest& request)
      : layer_(layer),
        request_(request),
        ranks_(request.ranks ? *request.ranks : alone_),
        threads_(request.threads == 0 ? threads_for(layer) : request.threads) {}

  Speed measure();

private:
  Trace run_once(Seconds& seconds);
  void require_same_bits(const Trace& first, const Trace& run, std::size_t number) const;
  Plan plan_of(const Trace& kept) const {
    return shard_of(layer_, make_plan(layer_, kept.wants()), ranks_.part());
  }

  Ranks alone_;
  const Layer& layer_;
  const BenchRequest& request_;
  Ranks& ranks_;
  std::size_t threads_;
};

/// One run, from the layer to what is kept of it.
template <class T> Trace Bench<T>::run_once(Seconds& seconds) {
  std::optional<Trace> kept;
  PhaseTimes parts;
  ranks_.meet();
  const double all = seconds_of([&] {
    kept.emplace(layer_, request_.kept);
    parts = compute(layer_, plan_of(*kept), *kept, threads_);
  });
  seconds.all.push_back(ranks_.largest(all));
  seconds.projections.push_back(ranks_.largest(parts.projections));
  seconds.attention.push_back(ranks_.largest(parts.attention));
  seconds.output.push_back(ranks_.largest(parts.output));
  seconds.around.push_back(ranks_.largest(parts.around));
  for (std::size_t i = 0; i < stage_count; ++i)
    if (parts.stages[i] > 0) seconds.stages[i] += parts.stages[i];
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

template <class T> Speed Bench<T>::measure() {
  Speed speed;
  speed.threads = static_cast<std::size_t>(ranks_.sum(static_cast<double>(threads_)));
  speed.dtype = layer_.dtype;
  speed.kept = request_.kept;

  Seconds warm_up, seconds;
  const Trace first = run_once(warm_up);
  Peak<T> peak(threads_);
  double run_s = 0;
  std::size_t peaks = 0;
  const auto progress = [&] { // 0 … 1
    const auto runs = static_cast<double>(speed.runs);
    if (request_.repeat) return runs / static_cast<double>(*request_.repeat);
    return std::min(run_s / enough_seconds, runs / static_cast<double>(fewest_runs));
  };
  const auto measure_peak = [&] {
    peak.measure();
    ++peaks;
  };
  while (progress() < 1) {
    if (progress() * (peak_rounds - 1) >= static_cast<double>(peaks)) measure_peak();
    const Trace run = run_once(seconds);
    ++speed.runs;
    run_s += seconds.all.back();
    require_same_bits(first, run, speed.runs + 1);
  }
  measure_peak();

  const Operations operations = operations_of(layer_, make_plan(layer_, first.wants()));
  speed.projections = speed_of(seconds.projections, operations.projections);
  speed.attention = speed_of(seconds.attention, operations.attention);
  speed.output = speed_of(seconds.output, operations.output);
  speed.around = speed_of(seconds.around, operations.around);
  speed.all = speed_of(seconds.all, operations.projections + operations.attention +
                                        operations.output + operations.around);
  for (std::size_t i = 0; i < stage_count; ++i)
    speed.stages[i] = seconds.stages[i] / static_cast<double>(speed.runs);
  speed.peak_rate = ranks_.sum(peak.rate());
  speed.unit = unit_in_use<T>();
  return speed;
}

/// What the feed-forward and the head multiply, of `rows` tokens.
double around_attention(const Layer& layer, double rows,
                        const std::function<bool(Stage)>& computes) {
  double sum = 0;
  const auto add = [&](Stage stage, const LinearMap& linear) {
    if (computes(stage)) sum += product_operations(rows, linear.W.count());
  };
  if (layer.block) {
    const FeedForward& mlp = layer.block->mlp;
    add(Stage::mlp_pre, mlp.in), add(Stage::mlp_up, mlp.up), add(Stage::mlp_out, mlp.out);
  }
  if (layer.ends) {
    add(Stage::logits, layer.ends->head.dense);
    add(Stage::logits, layer.ends->head.decoder);
  }
  return sum;
}

} // namespace

Operations operations_of(const Layer& layer, const Plan& plan) {
  const Dims& dims = layer.dims;
  const auto computes = [&](Stage stage) { return contains(plan.computed, stage); };
  const auto wants = [&](Stage stage) { return contains(plan.wanted, stage); };
  // Rows of all heads of a query, or of one.
  double queries = 0, rows_of_blocks = 0, all_scores = 0;
  const std::vector<Tile> rows = query_rows(layer, plan);
  for (const Tile& run : rows) queries += static_cast<double>(run.count);
  for (const QueryBlock& block : plan.blocks) {
    const auto count = static_cast<double>(block_rows(layer, block).count);
    rows_of_blocks += count;
    all_scores += count * static_cast<double>(computed_keys(layer, block.batch));
  }
  const double head_queries = rows_of_heads(rows), head_keys = rows_of_heads(key_rows(layer, plan));

  Operations sum;
  // No weight is the identity: nothing is multiplied.
  const auto of_a_head = [](const Tensor& W, std::size_t heads) {
    return static_cast<double>(W.count()) / static_cast<double>(std::max<std::size_t>(1, heads));
  };
  if (computes(Stage::q))
    sum.projections += product_operations(head_queries, of_a_head(layer.W_q, dims.H));
  if (computes(Stage::k))
    sum.projections += product_operations(head_keys, of_a_head(layer.W_k, dims.H_kv));
  if (computes(Stage::v))
    sum.projections += product_operations(head_keys, of_a_head(layer.W_v, dims.H_kv));

  const bool every_score =
      wants(Stage::scores) || wants(Stage::scaled) || wants(Stage::capped) || wants(Stage::biased);
  const double pairs = visible_pairs(layer, plan);
  const double scored = every_score ? all_scores : pairs;
  if (computes(Stage::scores)) sum.attention += product_operations(scored, dims.d_k);
  if (computes(Stage::head_out)) sum.attention += product_operations(pairs, dims.d_v);
  if (computes(Stage::head_result) && !layer.W_o.empty())
    sum.attention += product_operations(rows_of_blocks, dims.d_v, dims.d_out);

  sum.around = around_attention(layer, queries, computes);
  if (computes(Stage::output)) sum.output += product_operations(queries, layer.W_o.count());
  return sum;
}

Speed bench(const Layer& layer, const BenchRequest& request) {
  return layer.dtype == DType::f64 ? Bench<double>(layer, request).measure()
                                   : Bench<float>(layer, request).measure();
}

} // namespace mha
