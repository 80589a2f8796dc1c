#include <mha/layer/tensor_place.hpp>

#include <mha/layer/layer.hpp>

#include <algorithm>
#include <numeric>

namespace mha {

namespace {

bool counts_heads(Dim letter) {
  return axis_of(letter) == Axis::head || axis_of(letter) == Axis::kv_head;
}

/// The form in which a layer has a tensor.
const TensorForm& form_in(const TensorInfo& info, const Tensor& tensor, const Dims& dims) {
  if (!info.in_layer.keeps_form) return info.forms.front();
  const Shape& shape = tensor.shape();
  const auto fits = [&](const TensorForm& form) {
    if (form.size() != shape.size()) return false;
    for (std::size_t i = 0; i < form.size(); ++i)
      if (const std::size_t size = size_of(form[i], dims); size != 0 && size != shape[i])
        return false;
    return true;
  };
  const auto found = std::ranges::find_if(info.forms, fits);
  return found == info.forms.end() ? info.forms.front() : *found;
}

/// An axis besides those of batch and heads.
struct OwnAxis {
  Dim letter;
  std::size_t count, stride;
};

/// Finds the axes of heads, and returns the others in order.
std::vector<OwnAxis> find_axes(const TensorForm& form, const Tensor& tensor, const Dims& dims,
                               TensorPlace& place) {
  std::vector<OwnAxis> own;
  const Shape& shape = tensor.shape();
  std::size_t stride = 1;
  const auto take = [&](Dim letter, std::size_t count) {
    if (counts_heads(letter))
      place.axes.with_heads = true, place.counts[1] = count, place.strides[1] = stride;
    else
      own.insert(own.begin(), {letter, count, stride});
    stride *= count;
  };
  for (std::size_t i = form.size(); i-- > 0;) {
    const std::size_t length = shape[shape.size() - form.size() + i];
    const std::size_t heads =
        form[i].times ? std::max<std::size_t>(dims.size_of(form[i].letter), 1) : 1;
    if (form[i].times) take(*form[i].times, length / heads);
    take(form[i].letter, form[i].times ? heads : length);
  }
  if (shape.size() > form.size()) place.counts[0] = shape[0], place.strides[0] = stride;
  return own;
}

/// The axis as messages and selections need it.
ItemAxis item_axis(const Message& where, const Layer& layer, const OwnAxis& axis, std::size_t b,
                   std::string_view word) {
  if (axis.letter == Dim::T || axis.letter == Dim::S)
    return axis_of_item(where, layer, axis.letter, b);
  ItemAxis item{where, 0, word};
  item.own.resize(axis.count);
  std::iota(item.own.begin(), item.own.end(), std::size_t{0});
  return item;
}

} // namespace

TensorPlace place_in(const StagePlace& written, const TensorInfo& info, const Layer& layer,
                     const Message& where) {
  const Tensor& tensor = info.of(layer);
  TensorPlace place;
  std::vector<OwnAxis> own =
      find_axes(form_in(info, tensor, layer.dims), tensor, layer.dims, place);
  if (written.axes.size() > 1 + own.size())
    fail("{}: {} has {}: [heads{}]", where, info.name, counted(1 + own.size(), "axes"),
         own.size() > 1 ? ",rows,columns"
         : own.empty()  ? ""
                        : ",columns");
  if (!place.axes.with_heads && !written.axis(0).all())
    fail("{}: {} has no heads; its first axis is *: {}[*,{}]", where, info.name, info.name,
         written.axis(0).text());
  place.axes.with_columns = true;
  while (own.size() < 2) own.insert(own.begin(), {Dim::d_in, 1, 0}); // one row, or one number
  const std::size_t of_columns = written.axes.size() > 1 && own[0].stride == 0 ? 1 : 2;
  const OwnAxis &rows = own[0], &columns = own[1];
  place.counts[2] = rows.count, place.strides[2] = rows.stride;
  place.counts[3] = columns.count, place.strides[3] = columns.stride;
  const OwnAxis heads{Dim::d_in, place.counts[1], 0};
  place.axes.heads = written.axis(0).of(item_axis(where, layer, heads, 0, "heads"));
  const AxisPositions every;
  for (std::size_t b = 0; b < place.counts[0]; ++b)
    place.axes.tokens.push_back(
        (of_columns == 1 ? every : written.axis(1)).of(item_axis(where, layer, rows, b, "rows")));
  place.axes.columns = {
      written.axis(of_columns).of(item_axis(where, layer, columns, 0, "columns"))};
  const auto is_empty = [](const auto& list) { return list.empty(); };
  if (place.axes.heads.empty() || place.axes.columns[0].empty() ||
      std::ranges::any_of(place.axes.tokens, is_empty))
    fail("{}: the place holds no number", where);
  return place;
}

ResolvedEdit patch_at(const TensorPlace& place) {
  ResolvedEdit patch;
  patch.heads = PatchedAxis(place.axes.heads, place.counts[1]);
  for (const std::vector<std::size_t>& rows : place.axes.tokens)
    patch.tokens.emplace_back(rows, place.counts[2]);
  patch.columns.emplace_back(place.axes.columns[0], place.counts[3]);
  return patch;
}

namespace {

template <class T>
void apply_to(const ResolvedEdit& patch, const TensorPlace& place, Tensor& tensor) {
  T* const numbers = tensor.as_mutable<T>().data();
  const auto& [of_item, of_head, of_row, of_column] = place.strides;
  for (std::size_t b = 0; b < place.counts[0]; ++b)
    for (const std::size_t h : place.axes.heads)
      for (const std::size_t r : place.axes.tokens[b])
        for (const std::size_t c : place.axes.columns[0])
          patch.apply(b, h, r, numbers + b * of_item + h * of_head + r * of_row + c * of_column, c,
                      1);
}

} // namespace

void apply(const ResolvedEdit& patch, const TensorPlace& place, Tensor& tensor) {
  if (tensor.dtype() == DType::f64)
    apply_to<double>(patch, place, tensor);
  else
    apply_to<float>(patch, place, tensor);
}

} // namespace mha
