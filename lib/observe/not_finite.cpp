#include <mha/observe/not_finite.hpp>

#include <mha/layer/names.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>

namespace mha {

namespace {

/// Whether an element has the exponent of infinity and NaN. Whole numbers are compared, so that a
/// compiler takes many at once. In maps and rows a mask makes −inf: there it is none of these.
template <class T, class Bits>
bool some_not_finite(const Tensor& tensor, Bits exponent, bool masks) {
  constexpr Bits sign = Bits{1} << (8 * sizeof(Bits) - 1);
  Bits found = 0;
  for (T value : tensor.as<T>()) {
    const Bits bits = std::bit_cast<Bits>(value);
    found |=
        static_cast<Bits>((bits & exponent) == exponent && !(masks && bits == (sign | exponent)));
  }
  return found != 0;
}

bool has_not_finite(const Tensor& tensor, bool masks) {
  if (tensor.dtype() == DType::f64)
    return some_not_finite<double>(tensor, std::uint64_t{0x7ff} << 52, masks);
  if (tensor.dtype() == DType::f32)
    return some_not_finite<float>(tensor, std::uint32_t{0xff} << 23, masks);
  return is_floating(tensor.dtype()) && has_not_finite(convert(tensor, DType::f32), masks);
}

/// A weight where it lies: nothing is copied to look at it.
const Tensor& as_stored(const Tensor& tensor) {
  return tensor.stored() ? tensor.stored()->matrix : tensor;
}

/// "1 NaN and 2 infinite".
std::string words_of(std::size_t nan, std::size_t infinite) {
  std::string what;
  if (nan > 0) what = fmt::format("{} NaN", nan);
  if (infinite > 0) what += fmt::format("{}{} infinite", nan > 0 ? " and " : "", infinite);
  return what;
}

/// "1 NaN and 2 infinite of 8 numbers, the first at [0, 3]".
std::string what_is_not(const Tensor& tensor, bool has_batch, bool masks) {
  std::size_t nan = 0, infinite = 0, first = tensor.count();
  for (std::size_t i = 0; i < tensor.count(); ++i) {
    const double value = value_at(tensor, i);
    if (std::isfinite(value) || (masks && std::isinf(value) && value < 0)) continue;
    ++(std::isnan(value) ? nan : infinite);
    first = std::min(first, i);
  }
  std::vector<std::size_t> place(tensor.rank());
  for (std::size_t axis = place.size(); axis-- > 0; first /= tensor.shape()[axis])
    place[axis] = first % tensor.shape()[axis];
  // An axis that the file does not have.
  if (!has_batch && !place.empty()) place.erase(place.begin());
  return fmt::format("{} of {} numbers, the first at [{}]", words_of(nan, infinite), tensor.count(),
                     fmt::join(place, ", "));
}

} // namespace

std::string not_finite_in(const Tensor& tensor, bool has_batch, bool masks) {
  return has_not_finite(as_stored(tensor), masks) ? what_is_not(tensor, has_batch, masks) : "";
}

std::vector<Note> not_finite_inputs(const Layer& layer) {
  std::vector<Note> notes;
  const auto look_at = [&](std::string_view name, const Tensor& tensor, bool has_batch,
                           bool masks) {
    if (tensor.empty()) return;
    if (const std::string found = not_finite_in(tensor, has_batch, masks); !found.empty())
      notes.push_back(
          warning(fmt::format("{} has {}: everything computed from them is lost", name, found)));
  };
  for (const TensorInfo& info : layer_tensors())
    look_at(info.name, info.of(layer), layer.dims.batched || !info.has_batch(), false);
  for (const StageInfo& info : stages())
    if (layer.has_given(info.stage))
      look_at(info.name, layer.given[index_of(info.stage)], layer.dims.batched,
              info.kind == Kind::map || info.kind == Kind::row);
  return notes;
}

std::string strange_results(const Layer& layer, Stage stage, const Summary& computed) {
  const StageInfo& info = info_of(stage);
  const bool masks = info.kind == Kind::map || info.kind == Kind::row;
  const std::size_t infinite = masks ? 0 : computed.infinite;
  if ((!layer.block && !layer.ends) || computed.nan + infinite == 0) return "";
  return fmt::format("{}: {} of {} numbers: a weight before it has some, or it overflowed on the "
                     "way; `info` and `show --text …` say where",
                     info.name, words_of(computed.nan, infinite), computed.count);
}

} // namespace mha
