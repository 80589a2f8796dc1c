#include <mha/heads/measuring.hpp>

#include <mha/kernels/lapack.hpp>
#include <mha/observe/share_bytes.hpp>
#include <mha/system/parallel.hpp>
#include <mha/tensor/precision.hpp>

#include <algorithm>
#include <cmath>
#include <map>

namespace mha {

namespace {

/// One head's block of a projection, columns of width d_h.
struct ProjectionTask {
  const Tensor* W = nullptr;
  ProjectionMeasures HeadMeasures::*projection = nullptr;
  std::size_t part = 0, parts = 1; ///< of the heads side by side
  bool rows = false;               ///< W_o: a head has rows of it
  ProjectionMeasures result;
};

ProjectionMeasures measure(const ProjectionTask& task) {
  // The block in double precision: columns of W, or rows of W_o.
  const std::size_t in = task.W->shape()[0], out = task.W->shape()[1];
  const std::size_t rows = task.rows ? in / task.parts : in,
                    cols = task.rows ? out : out / task.parts;
  const std::size_t first = task.part * (task.rows ? rows * out : cols);
  std::vector<double> block(rows * cols);
  by_precision(task.W->dtype(), [&]<class T>(T) {
    const T* const W = task.W->as<T>().data() + first;
    for (std::size_t i = 0; i < rows; ++i) std::copy_n(W + i * out, cols, block.data() + i * cols);
  });
  const std::optional<std::vector<double>> values =
      singular_values({block.data(), rows, cols, cols});
  if (!values || values->empty()) return {};

  const double eps = task.W->dtype() == DType::f64
                         ? std::numeric_limits<double>::epsilon()
                         : static_cast<double>(std::numeric_limits<float>::epsilon());
  const double smallest = values->front() * eps * static_cast<double>(std::max(rows, cols));
  const std::size_t width = task.rows ? rows : cols; // of one head
  double rank = 0, squares = static_cast<double>(width - values->size());
  for (double value : *values) {
    rank += value > smallest ? 1 : 0;
    const double excess = value * value - 1; // an eigenvalue of WᵀW − I
    squares += excess * excess;
  }
  return {rank, values->front() / values->back(), std::sqrt(squares)};
}

/// Each rank computes a contiguous share of the tasks and sends it to the first. A rank without
/// LAPACK sends nothing; the result is whether all had it.
bool measure_together(std::vector<ProjectionTask>& tasks, std::size_t threads, Ranks& ranks) {
  const auto share_of = [&](std::size_t rank) {
    const std::size_t first = tasks.size() * rank / ranks.count(),
                      last = tasks.size() * (rank + 1) / ranks.count();
    return std::span(tasks).subspan(first, last - first);
  };
  const std::span<ProjectionTask> mine = share_of(ranks.rank());
  bool all = has_lapack();
  ShareBytes bytes;
  if (all) {
    parallel_for(mine.size(), threads, [&](std::size_t i) { mine[i].result = measure(mine[i]); });
    for (ProjectionTask& task : mine) bytes.field(task.result);
  }
  ranks.to_first(ranks.is_first() ? "" : bytes.take(),
                 [&](std::size_t rank, std::string_view results) {
                   ShareBytes reader(results);
                   const std::span<ProjectionTask> theirs = share_of(rank);
                   all = all && (!results.empty() || theirs.empty());
                   if (results.empty()) return;
                   for (ProjectionTask& task : theirs) reader.field(task.result);
                   reader.end();
                 });
  return all;
}

} // namespace

bool measure_projections(const Layer& layer, std::span<HeadMeasures> heads, std::size_t threads,
                         Ranks& ranks) {
  const Dims& dims = layer.dims;
  std::vector<ProjectionTask> tasks;
  std::map<std::pair<const Tensor*, std::size_t>, std::size_t> known; // query heads share k and v
  const auto each = [&](const auto& use) {
    for (HeadMeasures& head : heads)
      for (const auto& [W, projection, of_queries, rows] :
           {std::tuple{&layer.W_q, &HeadMeasures::q, true, false},
            std::tuple{&layer.W_k, &HeadMeasures::k, false, false},
            std::tuple{&layer.W_v, &HeadMeasures::v, false, false},
            std::tuple{&layer.W_o, &HeadMeasures::o, true, true}}) {
        if (W->empty()) continue;
        const std::size_t part = of_queries ? head.head : kv_head_of(layer, head.head);
        const auto [place, is_new] = known.try_emplace({W, part}, tasks.size());
        if (is_new)
          tasks.push_back({W, projection, part, of_queries ? dims.H : dims.H_kv, rows, {}});
        use(head, projection, tasks[place->second]);
      }
  };
  each([](auto&&...) {});
  if (tasks.empty()) return true;
  if (!measure_together(tasks, threads, ranks)) return false;
  each([](HeadMeasures& head, auto projection, const ProjectionTask& task) {
    head.*projection = task.result;
  });
  return true;
}

} // namespace mha
