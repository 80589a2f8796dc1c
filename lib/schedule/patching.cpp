#include <mha/schedule/patching.hpp>

#include <mha/schedule/memory.hpp>

#include <algorithm>

namespace mha {

namespace {

/// Patches a tensor of B, tokens, heads · width.
template <class T> Tensor patched(const Layer& layer, Stage stage, const Tensor& tensor) {
  Tensor copy = own_copy(tensor);
  const std::size_t tokens = copy.shape()[1], cols = copy.shape()[2];
  const std::vector<Dim>& letters = info_of(stage).letters;
  const std::size_t heads = letters.size() == 3 ? layer.dims.size_of(letters[0]) : 1;
  for (std::size_t b = 0; b < copy.shape()[0]; ++b)
    patch_rows<T>(layer.patches, stage, b, 0, 0, heads, cols / heads,
                  {copy.as_mutable<T>().data() + b * tokens * cols, tokens, cols, cols});
  return copy;
}

Tensor patched(const Layer& layer, Stage stage, const Tensor& tensor) {
  return layer.dtype == DType::f64 ? patched<double>(layer, stage, tensor)
                                   : patched<float>(layer, stage, tensor);
}

} // namespace

Layer with_patched_inputs(Layer layer) {
  if (layer.patches.has(Stage::resid_pre) && !layer.X.empty())
    layer.X = patched(layer, Stage::resid_pre, layer.X);
  if (layer.ends && layer.patches.has(Stage::embed)) {
    auto ends = std::make_shared<ModelEnds>(*layer.ends);
    ends->embed = patched(layer, Stage::embed, ends->embed);
    layer.ends = std::move(ends);
  }
  for (const StageInfo& info : stages())
    if (info.kind == Kind::token && layer.has_given(info.stage) && layer.patches.has(info.stage))
      layer.given[index_of(info.stage)] =
          patched(layer, info.stage, layer.given[index_of(info.stage)]);
  return layer;
}

template <class T> void patch_rows(const Patches& patches, Stage stage, std::size_t batch,
                                   std::size_t first, std::size_t first_head, std::size_t heads,
                                   std::size_t width, Matrix<T> rows) {
  if (!patches.has(stage)) return;
  for (std::size_t t = 0; t < rows.rows; ++t)
    for (std::size_t h = 0; h < heads; ++h)
      patches.apply(stage, batch, first_head + h, first + t, rows.row(t) + h * width, 0, width);
}

template <class T> void PatchedResults<T>::keep(std::size_t batch, std::size_t head,
                                                std::size_t token, std::vector<T> row) {
  const std::lock_guard lock(mutex_);
  rows_[{batch, token}][head] = std::move(row);
}

template <class T>
void PatchedResults<T>::take_out(std::size_t batch, std::size_t d_v, Matrix<T> concat) const {
  for (const auto& [place, heads] : rows_)
    if (place.first == batch)
      for (const auto& [head, row] : heads)
        std::fill_n(concat.row(place.second) + head * d_v, d_v, T(0));
}

template <class T> void PatchedResults<T>::add_to(std::size_t batch, std::size_t first,
                                                  std::size_t column, Matrix<T> y) const {
  for (std::size_t t = 0; t < y.rows; ++t) {
    const auto at = rows_.find({batch, first + t});
    if (at == rows_.end()) continue;
    for (const auto& [head, row] : at->second) {
      // A zero adds nothing: not even to the sign of a zero.
      if (std::ranges::all_of(row, [](T number) { return number == 0; })) continue;
      for (std::size_t i = 0; i < y.cols; ++i) y.row(t)[i] += row[column + i];
    }
  }
}

template void patch_rows(const Patches&, Stage, std::size_t, std::size_t, std::size_t, std::size_t,
                         std::size_t, Matrix<float>);
template void patch_rows(const Patches&, Stage, std::size_t, std::size_t, std::size_t, std::size_t,
                         std::size_t, Matrix<double>);
template class PatchedResults<float>;
template class PatchedResults<double>;

} // namespace mha
