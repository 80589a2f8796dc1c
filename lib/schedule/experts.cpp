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

/// The tokens of an expert are multiplied together, always by one routine, so that a token's bits
/// do not depend on which others have the same expert.
template <class T> void Schedule<T>::by_expert(Stage stage, Stage from,
                                               const std::vector<LinearMap>& maps,
                                               bool weighs_input) {
  if (!computes(stage) || maps.empty()) return finish({stage});
  tokens_.make_room(stage);
  seconds_of_phase(stage) += seconds_of([&] {
    constexpr std::size_t step = PackedMatrix<T>::column_step;
    const Tile& text = *text_;
    const Matrix<const T> chosen = tokens_.rows(Stage::experts, text), x = tokens_.rows(from, text);
    const Matrix<const T> weights =
        weighs_input ? tokens_.rows(Stage::expert_weights, text) : Matrix<const T>();
    const Matrix<T> y = tokens_.rows_mutable(stage, text);
    std::vector<std::vector<ExpertRow>> of_expert(maps.size());
    for (std::size_t t = 0; t < chosen.rows; ++t) {
      const auto experts = experts_of(chosen.row(t), chosen.cols, maps.size(), text.first + t);
      for (std::size_t j = 0; j < experts.size(); ++j) of_expert[experts[j]].push_back({t, j});
    }
    struct ExpertTask {
      std::size_t expert, first; ///< its first column
    };
    std::vector<ExpertTask> tasks;
    const std::size_t out = y.cols / chosen.cols;
    const auto used = static_cast<std::size_t>(
        std::ranges::count_if(of_expert, [](const auto& own) { return !own.empty(); }));
    const std::size_t together = columns_of_task(out, used, threads(), step);
    for (std::size_t e = 0; e < maps.size(); ++e)
      for (std::size_t first = 0; !of_expert[e].empty() && first < out; first += together)
        tasks.push_back({e, first});
    parallel_for(tasks.size(), threads(), [&](std::size_t i) {
      const auto [e, first] = tasks[i];
      const std::vector<ExpertRow>& own = of_expert[e];
      const std::size_t columns = std::min(together, out - first), in = maps[e].in();
      Buffer<T> input, result;
      const Matrix<T> gathered{input.room_for(own.size() * in), own.size(), in, in};
      const Matrix<T> made{result.room_for(own.size() * columns), own.size(), columns, columns};
      for (std::size_t r = 0; r < own.size(); ++r) {
        const T* const row = x.row(own[r].row) + (x.cols == in ? 0 : own[r].slot * in);
        std::copy_n(row, in, gathered.row(r));
        if (weighs_input) row_scale(gathered.row(r), in, weights.row(own[r].row)[own[r].slot]);
      }
      WeightInUse<T> W;
      W.prepare(Routine::fma, maps[e].W, nullptr, own.size(), 1, false);
      W.multiply(gathered, first, made);
      const Tensor bias = convert(maps[e].b, dtype_of<T>);
      for (std::size_t r = 0; r < own.size(); ++r) {
        if (!bias.empty()) row_add(made.row(r), bias.template as<T>().data() + first, columns);
        std::copy_n(made.row(r), columns, y.row(own[r].row) + own[r].slot * out + first);
      }
      report_product(own.size(), maps[e].W);
    });
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
