// Layers and whole passes on more threads than this machine has, by simulation: the schedule cuts
// its tasks for so many threads, one thread does them one after the other and times each, and a
// model of workers that take the next task as soon as they are free adds the times up. What the
// model leaves out: memory and caches that workers share, and waking them. Fails where the bits
// depend on the number of threads. Not a test:
//   many-threads-bench [CHECKPOINT [TOKENS]]

#include <mha/observe/compute.hpp>
#include <mha/load/assemble.hpp>
#include <mha/model/run.hpp>
#include <mha/observe/trace.hpp>
#include <mha/system/clock.hpp>
#include <mha/system/parallel.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <numeric>
#include <queue>
#include <random>

namespace {

using namespace mha;

/// Seconds until all tasks are done where each worker takes the next one as soon as it is free.
double makespan(std::size_t workers, const std::vector<double>& tasks) {
  std::priority_queue<double, std::vector<double>, std::greater<>> free_at;
  for (std::size_t i = 0; i < workers; ++i) free_at.push(0);
  double last = 0;
  for (const double task : tasks) {
    const double end = free_at.top() + task;
    free_at.pop(), free_at.push(end);
    last = std::max(last, end);
  }
  return last;
}

/// Adds up what the loops of a computation would take.
class Simulation : public LoopTimer {
public:
  Simulation() { time_loops(this); }
  ~Simulation() override { time_loops(nullptr); }
  Simulation(const Simulation&) = delete;
  Simulation& operator=(const Simulation&) = delete;

  void loop(std::size_t workers, const std::vector<double>& seconds) override {
    ++loops, tasks += seconds.size();
    work += std::accumulate(seconds.begin(), seconds.end(), 0.0);
    with_workers += makespan(workers, seconds);
  }
  std::size_t loops = 0, tasks = 0;
  double work = 0, with_workers = 0; ///< of all tasks; until the workers have done them
};

/// Of several runs the one that takes least: host noise only adds.
void simulate(const std::string& name, const std::function<Tensor(std::size_t threads)>& run) {
  fmt::print("{}\n{:>9} {:>8} {:>8} {:>10} {:>10} {:>10} {:>8}\n", name, "threads", "loops",
             "tasks", "alone s", "serial s", "took s", "share");
  std::optional<Tensor> first;
  double alone = 0;
  for (const std::size_t threads : {1, 2, 8, 16, 32, 64, 128}) {
    double best = 0, serial = 0;
    std::size_t loops = 0, tasks = 0;
    for (int round = 0; round < 3; ++round) {
      const Simulation simulation;
      Tensor result;
      const double took = seconds_of([&] { result = run(threads); });
      const double outside = took - simulation.work, simulated = outside + simulation.with_workers;
      if (round == 0 || simulated < best) best = simulated, serial = outside;
      loops = simulation.loops, tasks = simulation.tasks;
      if (!first) first = result;
      if (first->bytes() != result.bytes() ||
          std::memcmp(first->raw(), result.raw(), result.bytes()) != 0)
        fail("{} threads: other bits than of one", threads);
    }
    if (threads == 1) alone = best, serial = 0;
    fmt::print("{:>9} {:>8} {:>8} {:>10.4f} {:>10.4f} {:>10.4f} {:>8.2f}\n", threads, loops, tasks,
               alone, serial, best, alone / best / static_cast<double>(threads));
  }
}

Layer random_layer(std::size_t T, std::size_t d_model, std::size_t H) {
  std::mt19937 bits(1);
  const auto part = [&](const Shape& shape, float size) {
    std::uniform_real_distribution<float> numbers(-size, size);
    Tensor tensor(DType::f32, shape);
    for (float& value : tensor.as_mutable<float>()) value = numbers(bits);
    return mha::NamedTensor{tensor, "bench"};
  };
  const float size = 2 / std::sqrt(static_cast<float>(d_model));
  NamedTensors parts{{"X", part({T, d_model}, 1.7F)}};
  for (const char* W : {"W_q", "W_k", "W_v", "W_o"}) parts[W] = part({d_model, d_model}, size);
  Settings settings;
  set(settings, "num_heads", std::to_string(H), "bench");
  set(settings, "causal", "true", "bench");
  return make_layer(std::move(parts), settings);
}

void simulate_layers() {
  struct Size {
    const char* name;
    std::size_t T, d_model, H;
  };
  for (const auto& [name, T, d_model, H] : {Size{"a", 128, 768, 12},
                                            {"b", 1024, 768, 12},
                                            {"c", 2048, 1024, 16},
                                            {"d", 4096, 512, 8}}) {
    const Layer layer = random_layer(T, d_model, H);
    simulate(fmt::format("{}: T {}, d_model {}, H {}, output", name, T, d_model, H),
             [&](std::size_t threads) {
               return trace(layer, {Stage::output}, {}, threads).value(Stage::output);
             });
  }
}

void simulate_pass(const std::string& checkpoint, std::size_t T) {
  Request request;
  request.sources = {checkpoint};
  request.for_texts = request.keeps_layers = true;
  const Sources sources(std::move(request));
  const auto weights = std::make_shared<const Weights>(sources);
  std::vector<int> ids(T);
  for (std::size_t t = 0; t < T; ++t)
    ids[t] = static_cast<int>((t * 37 + 5) % weights->model().vocabulary());
  const auto texts =
      std::make_shared<const Texts>(weights, padded({ids}, false, 0), "tokens", false);
  const TextLayers layers(sources, texts);
  const auto pass = [&](std::size_t threads) {
    Advance way;
    way.threads = threads;
    return advance(layers, layers.embedded(), layers.count(), way).x;
  };
  pass(1), pass(1); // makes the layers and packs the weights
  simulate(fmt::format("{}: {} tokens, weights kept", sources.title(), T), pass);
}

} // namespace

int main(int argc, char** argv) {
  try {
    if (argc < 2) simulate_layers();
    if (argc > 1) simulate_pass(argv[1], argc > 2 ? std::stoul(argv[2]) : 128);
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
  return 0;
}
