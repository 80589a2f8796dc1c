// Products of tokens with the maps of their experts.

#include <mha/schedule/experts.hpp>

#include <mha/kernels/rows.hpp>
#include <mha/schedule/schedule.hpp>
#include <mha/system/clock.hpp>
#include <mha/system/one_of.hpp>
#include <mha/system/parallel.hpp>

#include <algorithm>
#include <cmath>

namespace mha {

namespace {

/// Columns of one expert's map that a task multiplies with: all of them where experts are many.
std::size_t columns_of_task(std::size_t columns, std::size_t experts, std::size_t threads,
                            std::size_t step) {
  const std::size_t pieces =
      (threads * tasks_of_thread + experts - 1) / std::max<std::size_t>(1, experts);
  const std::size_t strips = (columns + step - 1) / step;
  return std::max<std::size_t>(1, (strips + pieces - 1) / pieces) * step;
}

} // namespace

template <class T> std::vector<std::size_t> experts_of(const T* numbers, std::size_t chosen,
                                                       std::size_t count, std::size_t token) {
  std::vector<std::size_t> experts(chosen);
  for (std::size_t j = 0; j < chosen; ++j) {
    if (!(numbers[j] >= 0 && numbers[j] < static_cast<T>(count)) ||
        numbers[j] != std::floor(numbers[j]))
      fail("experts of token {}: {} is not one of the {} experts: a whole number from 0 to {} "
           "expected",
           token, numbers[j], count, count - 1);
    experts[j] = static_cast<std::size_t>(numbers[j]);
    if (std::find(experts.begin(), experts.begin() + static_cast<std::ptrdiff_t>(j), experts[j]) !=
        experts.begin() + static_cast<std::ptrdiff_t>(j))
      fail("experts of token {}: expert {} is there twice: distinct experts expected", token,
           experts[j]);
  }
  return experts;
}

namespace {

/// The tokens that each of the experts computes, as the stage `experts` has them.
template <class T> std::vector<std::vector<ExpertRow>>
rows_of_experts(Matrix<const T> chosen, std::size_t experts, std::size_t first_token) {
  std::vector<std::vector<ExpertRow>> rows(experts);
  for (std::size_t t = 0; t < chosen.rows; ++t) {
    const auto own = experts_of(chosen.row(t), chosen.cols, experts, first_token + t);
    for (std::size_t j = 0; j < own.size(); ++j) rows[own[j]].push_back({t, j});
  }
  return rows;
}

/// Some columns of an expert's map.
struct ExpertTask {
  std::size_t expert, first, count;
};

/// The columns of all experts that some token has, in tasks for the threads.
std::vector<ExpertTask> tasks_of_experts(const std::vector<std::vector<ExpertRow>>& rows,
                                         std::size_t columns, std::size_t threads,
                                         std::size_t step) {
  const auto used = static_cast<std::size_t>(
      std::ranges::count_if(rows, [](const auto& own) { return !own.empty(); }));
  const std::size_t together = columns_of_task(columns, used, threads, step);
  std::vector<ExpertTask> tasks;
  for (std::size_t e = 0; e < rows.size(); ++e)
    for (std::size_t first = 0; !rows[e].empty() && first < columns; first += together)
      tasks.push_back({e, first, std::min(together, columns - first)});
  return tasks;
}

} // namespace

/// The tokens of an expert are multiplied together, always by one routine, so that a token's bits
/// do not depend on which others have the same expert.
template <class T> void Schedule<T>::by_expert(Stage stage, Stage from,
                                               const std::vector<LinearMap>& maps,
                                               bool weighs_input) {
  if (!computes(stage) || maps.empty()) return finish({stage});
  tokens_.make_room(stage);
  const Tile& text = *text_;
  const Matrix<const T> chosen = tokens_.rows(Stage::experts, text), x = tokens_.rows(from, text);
  const Matrix<const T> weights =
      weighs_input ? tokens_.rows(Stage::expert_weights, text) : Matrix<const T>();
  const Matrix<T> y = tokens_.rows_mutable(stage, text);
  const std::vector<std::vector<ExpertRow>> of_expert =
      rows_of_experts(chosen, maps.size(), text.first);
  const std::size_t in = maps[0].in(), out = maps[0].out();
  const auto multiply = [&](const ExpertTask& task) {
    const LinearMap& map = maps[task.expert];
    const std::vector<ExpertRow>& own = of_expert[task.expert];
    Buffer<T> input, result;
    const Matrix<T> rows{input.room_for(own.size() * in), own.size(), in, in};
    const Matrix<T> made{result.room_for(own.size() * task.count), own.size(), task.count,
                         task.count};
    for (std::size_t r = 0; r < own.size(); ++r) {
      const auto [t, slot] = own[r];
      std::copy_n(x.row(t) + (x.cols == in ? 0 : slot * in), in, rows.row(r));
      if (weighs_input) row_scale(rows.row(r), in, weights.row(t)[slot]);
    }
    WeightInUse<T> W;
    W.prepare(Routine::fma, map.W, nullptr, own.size(), 1, false);
    W.multiply(rows, task.first, made);
    const Tensor b = convert(map.b, dtype_of<T>);
    for (std::size_t r = 0; r < own.size(); ++r) {
      if (!b.empty()) row_add(made.row(r), b.template as<T>().data() + task.first, task.count);
      std::copy_n(made.row(r), task.count, y.row(own[r].row) + own[r].slot * out + task.first);
    }
    report_product(own.size(), map.W);
  };
  seconds_of_phase(stage) += seconds_of([&] {
    for (std::size_t e = 0; e < maps.size(); ++e)
      if (!of_expert[e].empty()) start_reading(maps[e].W);
    const std::vector<ExpertTask> tasks =
        tasks_of_experts(of_expert, out, threads(), PackedMatrix<T>::column_step);
    std::vector<StageSeconds> seconds(workers_for(tasks.size(), threads()));
    parallel_for(tasks.size(), threads(), [&](std::size_t i, std::size_t worker) {
      seconds[worker][index_of(stage)] += seconds_of([&] { multiply(tasks[i]); });
    });
    for (const StageSeconds& worker : seconds) add_seconds(worker);
    Tile whole = text;
    whole.heads = {0, 1};
    patch(stage, whole, y.cols);
    finish({stage});
  });
}

template std::vector<std::size_t> experts_of(const float*, std::size_t, std::size_t, std::size_t);
template std::vector<std::size_t> experts_of(const double*, std::size_t, std::size_t, std::size_t);
template void Schedule<float>::by_expert(Stage, Stage, const std::vector<LinearMap>&, bool);
template void Schedule<double>::by_expert(Stage, Stage, const std::vector<LinearMap>&, bool);

} // namespace mha
