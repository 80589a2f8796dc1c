#include <mha/observe/not_finite.hpp>

#include <mha/layer/names.hpp>
#include <mha/tensor/parts.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>

namespace mha {

namespace {

Message where_it_comes_from() {
  return message("an earlier weight has some, or a step overflowed; <weights and stages> show "
                 "where");
}

/// Whether an element has the exponent of infinity and NaN. Compares integers, so that compilers
/// vectorise the loop. `masks`: −inf does not count, since masks make it in maps and rows.
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

/// A weight in its stored form, so that nothing is copied to check it.
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
  Shape shape = tensor.shape();
  if (!has_batch && !shape.empty()) shape.erase(shape.begin()); // the file does not have this axis
  return fmt::format("{} of {} numbers, the first at {}", words_of(nan, infinite), tensor.count(),
                     place_text(shape, first));
}

/// Whether −inf in a stage may be a mask's.
bool may_be_masked(Stage stage) {
  const Kind kind = info_of(stage).kind;
  return kind == Kind::map || kind == Kind::row;
}

std::string not_finite_in(const Tensor& tensor, bool has_batch, bool masks) {
  return has_not_finite(as_stored(tensor), masks) ? what_is_not(tensor, has_batch, masks) : "";
}

} // namespace

std::string not_finite_in(const Tensor& tensor, bool has_batch) {
  return not_finite_in(tensor, has_batch, false);
}

std::string not_finite_in(Stage stage, const Tensor& value, bool has_batch) {
  return not_finite_in(value, has_batch, may_be_masked(stage));
}

std::vector<Note> not_finite_inputs(const Layer& layer) {
  std::vector<Note> notes;
  const auto warn = [&](std::string_view name, const std::string& found) {
    if (!found.empty())
      notes.push_back(
          warning(fmt::format("{} has {}: everything computed from them is lost", name, found)));
  };
  for (const TensorInfo& info : layer_tensors())
    if (const Tensor& tensor = info.of(layer); !tensor.empty())
      warn(info.name, not_finite_in(tensor, layer.dims.batched || !info.has_batch()));
  for (const StageInfo& info : stages())
    if (layer.has_given(info.stage))
      warn(info.name,
           not_finite_in(info.stage, layer.given[index_of(info.stage)], layer.dims.batched));
  return notes;
}

std::vector<Note> not_finite_result(std::string_view name, const Tensor& result, bool has_batch) {
  const std::string found = not_finite_in(result, has_batch);
  if (found.empty()) return {};
  return {warning(message("{} has {}: {}", name, found, where_it_comes_from()))};
}

Message not_finite_stage(Stage stage, const Summary& computed) {
  const std::size_t infinite = may_be_masked(stage) ? 0 : computed.infinite;
  if (computed.nan + infinite == 0) return "";
  return message("{}: {} of {} numbers: {}", name_of(stage), words_of(computed.nan, infinite),
                 computed.count, where_it_comes_from());
}

} // namespace mha
