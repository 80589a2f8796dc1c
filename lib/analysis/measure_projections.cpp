#include "analysis/measure_projections.hpp"

#include "kernels/lapack.hpp"
#include "kernels/parallel.hpp"

#include <cmath>
#include <map>

namespace mha {

namespace {

/// One head's block of a projection, columns of width d_h.
struct Task {
  const Tensor* W = nullptr;
  ProjectionMeasures HeadMeasures::*projection = nullptr;
  std::size_t part = 0, parts = 1; ///< of the heads side by side
  bool rows = false;               ///< W_o: a head has rows of it
  ProjectionMeasures result;
};

/// The block in double precision; of W_o the transpose's rows, which has the same singular values.
std::vector<double> block_of(const Task& task, std::size_t& rows, std::size_t& cols) {
  const std::size_t in = task.W->shape()[0], out = task.W->shape()[1];
  rows = task.rows ? in / task.parts : in;
  cols = task.rows ? out : out / task.parts;
  const std::size_t first_row = task.rows ? task.part * rows : 0,
                    first_col = task.rows ? 0 : task.part * cols;
  std::vector<double> block;
  block.reserve(rows * cols);
  for (std::size_t i = 0; i < rows; ++i)
    for (std::size_t j = 0; j < cols; ++j)
      block.push_back(value_at(*task.W, (first_row + i) * out + first_col + j));
  return block;
}

ProjectionMeasures measure(const Task& task) {
  std::size_t rows = 0, cols = 0;
  const std::vector<double> block = block_of(task, rows, cols);
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

} // namespace

bool measure_projections(const Layer& layer, std::vector<HeadMeasures>& heads,
                         std::size_t threads) {
  const Dims& dims = layer.dims;
  std::vector<Task> tasks;
  std::map<std::pair<const Tensor*, std::size_t>, std::size_t> known; // query heads share k and v
  const auto each = [&](const auto& use) {
    for (HeadMeasures& head : heads)
      for (const auto& [W, projection, of_queries, rows] :
           {std::tuple{&layer.W_q, &HeadMeasures::q, true, false},
            std::tuple{&layer.W_k, &HeadMeasures::k, false, false},
            std::tuple{&layer.W_v, &HeadMeasures::v, false, false},
            std::tuple{&layer.W_o, &HeadMeasures::o, true, true}}) {
        if (W->empty()) continue;
        const std::size_t part = of_queries ? head.head : kv_head_of(dims, head.head);
        const auto [place, is_new] = known.try_emplace({W, part}, tasks.size());
        if (is_new)
          tasks.push_back({W, projection, part, of_queries ? dims.H : dims.H_kv, rows, {}});
        use(head, projection, tasks[place->second]);
      }
  };
  each([](auto&&...) {});
  if (tasks.empty()) return true;
  if (!has_lapack()) return false;
  parallel_for(tasks.size(), threads, [&](std::size_t i) { tasks[i].result = measure(tasks[i]); });
  each([](HeadMeasures& head, auto projection, const Task& task) {
    head.*projection = task.result;
  });
  return true;
}

} // namespace mha
