#include <mha/observe/not_finite.hpp>

#include <mha/layer/names.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>

namespace mha {

namespace {

/// Whether an element has the exponent of infinity and NaN. Whole numbers are compared, so that a
/// compiler takes many at once.
template <class T, class Bits> bool some_not_finite(const Tensor& tensor, Bits exponent) {
  Bits found = 0;
  for (T value : tensor.as<T>())
    found |= static_cast<Bits>((std::bit_cast<Bits>(value) & exponent) == exponent);
  return found != 0;
}

bool has_not_finite(const Tensor& tensor) {
  if (tensor.dtype() == DType::f64)
    return some_not_finite<double>(tensor, std::uint64_t{0x7ff} << 52);
  if (tensor.dtype() == DType::f32)
    return some_not_finite<float>(tensor, std::uint32_t{0xff} << 23);
  return is_floating(tensor.dtype()) && has_not_finite(convert(tensor, DType::f32));
}

/// A weight where it lies: nothing is copied to look at it.
const Tensor& as_stored(const Tensor& tensor) {
  return tensor.stored() ? tensor.stored()->matrix : tensor;
}

/// What is not finite, in words.
std::string what_is_not(const Tensor& tensor, bool has_batch) {
  std::size_t nan = 0, infinite = 0, first = tensor.count();
  for (std::size_t i = 0; i < tensor.count(); ++i) {
    const double value = value_at(tensor, i);
    if (std::isfinite(value)) continue;
    ++(std::isnan(value) ? nan : infinite);
    first = std::min(first, i);
  }
  std::vector<std::size_t> place(tensor.rank());
  for (std::size_t axis = place.size(); axis-- > 0; first /= tensor.shape()[axis])
    place[axis] = first % tensor.shape()[axis];
  // An axis that the file does not have.
  if (!has_batch && !place.empty()) place.erase(place.begin());
  std::string what;
  if (nan > 0) what = fmt::format("{} NaN", nan);
  if (infinite > 0) what += fmt::format("{}{} infinite", nan > 0 ? " and " : "", infinite);
  return fmt::format("{} of {} numbers, the first at [{}]", what, tensor.count(),
                     fmt::join(place, ", "));
}

} // namespace

std::string not_finite_in(const Tensor& tensor, bool has_batch) {
  return has_not_finite(as_stored(tensor)) ? what_is_not(tensor, has_batch) : "";
}

std::vector<Note> not_finite_inputs(const Layer& layer) {
  std::vector<Note> notes;
  const auto look_at = [&](std::string_view name, const Tensor& tensor, bool has_batch) {
    if (tensor.empty()) return;
    if (const std::string found = not_finite_in(tensor, has_batch); !found.empty())
      notes.push_back(
          warning(fmt::format("{} has {}: everything computed from them is lost", name, found)));
  };
  for (const TensorInfo& info : layer_tensors())
    look_at(info.name, info.of(layer), layer.dims.batched || !info.has_batch());
  for (const StageInfo& info : stages())
    if (layer.has_given(info.stage) && info.kind != Kind::map && info.kind != Kind::row)
      look_at(info.name, layer.given[index_of(info.stage)], layer.dims.batched);
  return notes;
}

} // namespace mha
