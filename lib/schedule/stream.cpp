#include <mha/schedule/stream.hpp>

#include <mha/kernels/bf16x3.hpp>
#include <mha/layer/graph.hpp>
#include <mha/schedule/linear.hpp>
#include <mha/schedule/memory.hpp>
#include <mha/schedule/meter.hpp>
#include <mha/schedule/patching.hpp>
#include <mha/schedule/routines.hpp>
#include <mha/schedule/tiles.hpp>
#include <mha/system/clock.hpp>
#include <mha/system/parallel.hpp>

#include <algorithm>

namespace mha {

namespace {

/// As many threads as pay: one, or all cores.
std::size_t threads_around(const Layer& layer) {
  const Dims& d = layer.dims;
  const double work = static_cast<double>(ItemRows(layer, Dim::T).all()) *
                      static_cast<double>(d.d_model) *
                      static_cast<double>(std::max({d.d_ff, d.vocabulary, std::size_t(1)}));
  return work < 4e6 ? 1 : core_count();
}

template <class T> Matrix<T> mutable_matrix(Tensor& tensor) {
  const std::size_t cols = tensor.shape()[1];
  return {tensor.as_mutable<T>().data(), tensor.shape()[0], cols, cols};
}

} // namespace

template <class T> Stream<T>::Stream(const Layer& layer, const Plan& plan, Observer& observer,
                                     std::size_t threads, Tensor output)
    : layer_(layer),
      plan_(plan),
      observer_(observer),
      threads_(threads == 0 ? threads_around(layer) : threads),
      items_(layer, Dim::T),
      output_(std::move(output)) {}

template <class T> Routine Stream<T>::routine_of(std::size_t batch) const {
  const Dims& dims = layer_.dims;
  return routine_for<T>(layer_.length_of(batch), dims.d_model, dims.d_model);
}

template <class T> void Stream<T>::each_run(const std::function<void()>& work) {
  // Logits are as wide as the vocabulary: one block of queries at a time, and of it what was
  // chosen.
  const bool apart = contains(plan_.computed, Stage::logits);
  std::vector<Tile> runs;
  for (const Tile& rows : query_rows(layer_, plan_)) {
    // Rows that are split together stay together: one that does not split takes the others along.
    const std::size_t step = routine_of(rows.batch) == Routine::bf16x3 ? bf16x3_rows : 1;
    if (!apart && !runs.empty() && runs.back().batch == rows.batch &&
        runs.back().first + runs.back().count == rows.first)
      runs.back().count += rows.count;
    else
      runs.push_back(apart ? chosen_rows(plan_, rows, step) : rows);
  }
  for (const Tile& run : runs) {
    run_ = run, computed_ = {}, scratch_.clear();
    work();
  }
}

template <class T> Matrix<const T> Stream<T>::run_rows(const Tensor& tensor) const {
  return matrix_of<T>(tensor, run_.batch).rows_from(run_.first, run_.count);
}

template <class T> Matrix<const T> Stream<T>::operator[](Stage stage) const {
  if (layer_.has_given(stage)) return run_rows(layer_.given[index_of(stage)]);
  if (const Tensor& own = computed_[index_of(stage)]; !own.empty()) return matrix_of<T>(own);
  if (stage == Stage::output)
    return items_.template of<T>(output_, run_.batch).rows_from(run_.first, run_.count);
  if (stage == Stage::resid_pre) return run_rows(layer_.X);
  if (layer_.ends && stage == Stage::embed) return run_rows(layer_.ends->embed);
  if (layer_.ends && (stage == Stage::resid_post || stage == Stage::final))
    return run_rows(layer_.ends->stream);
  return (*this)[info_of(stage).inputs.front()];
}

template <class T> Matrix<T> Stream<T>::room(Stage stage) {
  const std::size_t width = layer_.dims.size_of(info_of(stage).letters.back());
  Tensor& tensor = computed_[index_of(stage)];
  tensor = Tensor::uninitialised(layer_.dtype, {run_.count, width});
  return mutable_matrix<T>(tensor);
}

template <class T>
void Stream<T>::compute(Stage stage, const std::function<void(Matrix<T>)>& work) {
  const double seconds = seconds_of([&] {
    const Matrix<T> to = room(stage);
    work(to);
    patch(stage, to);
  });
  seconds_[index_of(stage)] += seconds * static_cast<double>(threads_);
}

template <class T> void Stream<T>::rows(Stage stage, const std::function<void(const Rows&)>& work) {
  if (computes(stage))
    compute(stage, [&](Matrix<T> to) {
      tiles(run_.count, [&](std::size_t first, std::size_t count) {
        work(Rows{*this, first, count, to.rows_from(first, count)});
      });
    });
  show(stage);
}

template <class T> void Stream<T>::product(Stage stage, Stage x, const LinearMap& linear) {
  if (computes(stage))
    product_of(stage, (*this)[x], linear);
  else
    show(stage);
}

template <class T> void Stream<T>::product_of(Stage stage, Matrix<const T> x,
                                              const LinearMap& linear,
                                              const std::function<void(Matrix<T>)>& then) {
  if (computes(stage))
    compute(stage, [&](Matrix<T> to) {
      multiply_linear<T>(routine_of(run_.batch), x, linear, to, threads_, layer_.kept.get());
      report_product(x.rows, linear.in(), linear.out());
      if (then)
        tiles(to.rows,
              [&](std::size_t first, std::size_t count) { then(to.rows_from(first, count)); });
    });
  show(stage);
}

template <class T> void Stream<T>::patch(Stage stage, Matrix<T> rows) const {
  patch_rows(layer_.patches, stage, run_.batch, run_.first, 0, 1, rows.cols, rows);
}

template <class T>
Matrix<T> Stream<T>::scratch_product(Matrix<const T> x, const LinearMap& linear) {
  scratch_.push_back(Tensor::uninitialised(layer_.dtype, {x.rows, linear.out()}));
  const Matrix<T> to = mutable_matrix<T>(scratch_.back());
  multiply_linear<T>(routine_of(run_.batch), x, linear, to, threads_, layer_.kept.get());
  report_product(x.rows, linear.in(), linear.out());
  return to;
}

template <class T> Matrix<T> Stream<T>::scratch_like(Matrix<const T> rows) {
  scratch_.push_back(Tensor::uninitialised(layer_.dtype, {rows.rows, rows.cols}));
  return mutable_matrix<T>(scratch_.back());
}

template <class T>
void Stream<T>::tiles(std::size_t rows,
                      const std::function<void(std::size_t first, std::size_t count)>& work) const {
  constexpr std::size_t tile = 32;
  parallel_for((rows + tile - 1) / tile, threads_,
               [&](std::size_t i) { work(i * tile, std::min(tile, rows - i * tile)); });
}

template <class T> void Stream<T>::show(Stage stage) const {
  if (!contains(plan_.wanted, stage)) return;
  const Matrix<const T> all = (*this)[stage];
  for (const Place& place : places_of(layer_, plan_, stage)) {
    const std::size_t first = std::max(place.token, run_.first);
    const std::size_t end = std::min(place.token + place.count, run_.first + run_.count);
    if (place.batch != run_.batch || first >= end) continue;
    mha::show(observer_, layer_, stage, {place.batch, 0, first, end - first},
              all.rows_from(first - run_.first, end - first));
  }
}

template class Stream<float>;
template class Stream<double>;

} // namespace mha
