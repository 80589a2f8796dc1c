#include <mha/schedule/padding.hpp>

#include <mha/schedule/memory.hpp>
#include <mha/schedule/tiles.hpp>
#include <mha/schedule/visible.hpp>
#include <mha/system/parallel.hpp>
#include <mha/tensor/storage.hpp>

#include <algorithm>

namespace mha {

std::size_t own_rows(const Layer& layer, Stage stage, const Place& place) {
  if (layer.lengths.empty()) return place.count;
  const std::vector<Dim>& letters = info_of(stage).letters;
  const bool of_all_keys = letters.size() == 3 && letters[1] == Dim::S_all;
  const std::size_t end =
      of_all_keys ? computed_keys(layer, place.batch) : layer.length_of(place.batch);
  return std::min(place.count, std::max(end, place.token) - place.token);
}

namespace {

template <class T>
void show_zeros(const Layer& layer, const Plan& plan, Observer& observer, std::size_t threads) {
  std::size_t widest = block_queries;
  for (const Stage stage : plan.wanted)
    widest = std::max(widest, layer.dims.size_of(info_of(stage).letters.back()));
  const Tensor zeros(layer.dtype, {widest});
  for (const Stage stage : plan.wanted) {
    const StageInfo& info = info_of(stage);
    const std::vector<Place> places = places_of(layer, plan, stage);
    parallel_for(places.size(), threads, [&](std::size_t i) {
      Place padding = places[i];
      const std::size_t own = own_rows(layer, stage, padding);
      padding.token += own, padding.count -= own;
      if (padding.count == 0) return;
      const bool row = info.kind == Kind::row; // its numbers are side by side
      show<T>(observer, layer, stage, padding,
              {zeros.as<T>().data(), row ? 1 : padding.count,
               row ? padding.count : layer.dims.size_of(info.letters.back()), 0});
    });
  }
}

} // namespace

void show_padding(const Layer& layer, const Plan& plan, Observer& observer, std::size_t threads) {
  if (layer.lengths.empty()) return;
  if (threads == 0) threads = threads_for(layer);
  layer.dtype == DType::f64 ? show_zeros<double>(layer, plan, observer, threads)
                            : show_zeros<float>(layer, plan, observer, threads);
}

Tensor kept_rows(const Slice& piece, const ArrayView& rows) {
  return piece.token < piece.length ? copy_of(rows) : sparse_zeros(rows.dtype, rows.shape);
}

} // namespace mha
