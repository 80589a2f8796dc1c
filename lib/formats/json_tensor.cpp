#include <mha/formats/json_array.hpp>

#include <mha/files/text.hpp>

#include <algorithm>
#include <cmath>
#include <utility>

namespace mha::io {

namespace {

JsonNumbers numbers_for(DType dtype) {
  switch (dtype) {
  case DType::u64:
  case DType::u32:
  case DType::u16:
  case DType::u8:
    return JsonNumbers::unsigned_integers;
  case DType::i64:
  case DType::i32:
  case DType::i16:
  case DType::i8:
    return JsonNumbers::signed_integers;
  default:
    return JsonNumbers::floating;
  }
}

DType dtype_for(JsonNumbers kind) {
  return kind == JsonNumbers::signed_integers     ? DType::i64
         : kind == JsonNumbers::unsigned_integers ? DType::u64
                                                  : DType::f64;
}

/// Adds this place to the Error of a function that does not know the place.
template <class Call> auto placed(const JsonScanner& scanner, const char* at, Call call) {
  try {
    return call();
  } catch (const Error& error) {
    scanner.refuse(error.message(), at);
  }
}

Shape declared_shape(const JsonScanner& scanner, const JsonValue& value) {
  constexpr std::string_view wanted = "\"shape\" must be a list of whole numbers";
  if (!value.array || value.array->is_text || value.array->numbers.dtype() != DType::f64 ||
      value.array->numbers.rank() != 1)
    scanner.refuse(wanted, value.at);
  Shape shape;
  for (const double length : value.array->numbers.as<double>()) {
    if (!(length >= 0) || length > 0x1p53 || std::floor(length) != length)
      scanner.refuse(wanted, value.at);
    shape.push_back(static_cast<std::size_t>(length));
  }
  if (shape.size() > 32) scanner.refuse("more than 32 axes", value.at);
  return shape;
}

/// The numbers of "data", which are read again if "dtype" comes after them and needs another type.
Tensor numbers_of(JsonScanner& scanner, JsonValue& data, JsonNumbers kind) {
  const DType wanted = dtype_for(kind);
  if (data.array && !data.array->is_text && data.array->lists.empty()) {
    const DType found = data.array->numbers.dtype();
    if (found == wanted || (wanted == DType::f64 && found == DType::boolean))
      return std::exchange(data.array, std::nullopt)->numbers;
  }
  const char* after = scanner.place();
  scanner.go_to(data.at);
  Tensor numbers;
  if (data.array) {
    data.array.reset();
    numbers = read_json_array(scanner, kind).numbers;
  } else { // one number without brackets
    numbers = read_json_number(scanner, kind);
  }
  scanner.go_to(after);
  return numbers;
}

template <class Integer> void require_range(const JsonScanner& scanner, const Tensor& numbers,
                                            DType dtype, double low, double high, const char* at) {
  for (const Integer value : numbers.as<Integer>())
    if (static_cast<double>(value) < low || static_cast<double>(value) > high)
      scanner.refuse(fmt::format("{} does not fit into {}", value, name_of(dtype)), at);
}

/// Converts the numbers to their dtype; throws Error if one does not fit.
Tensor fitted(const JsonScanner& scanner, const Tensor& numbers, DType dtype, const char* at) {
  const double bits = static_cast<double>(size_of(dtype)) * 8;
  if (numbers.dtype() == DType::i64 && dtype != DType::i64)
    require_range<std::int64_t>(scanner, numbers, dtype, -std::exp2(bits - 1),
                                std::exp2(bits - 1) - 1, at);
  if (numbers.dtype() == DType::u64 && dtype != DType::u64)
    require_range<std::uint64_t>(scanner, numbers, dtype, 0, std::exp2(bits) - 1, at);
  Tensor result = convert(numbers, dtype);
  if (numbers.dtype() != DType::f64 || dtype == DType::f64) return result;
  const auto values = numbers.as<double>();
  for (std::size_t i = 0; i < values.size(); ++i) {
    const bool lost = dtype == DType::boolean
                          ? values[i] != 0 && values[i] != 1
                          : std::isfinite(values[i]) && std::isinf(value_at(result, i));
    if (lost) scanner.refuse(fmt::format("{} does not fit into {}", values[i], name_of(dtype)), at);
  }
  return result;
}

} // namespace

JsonNumbers numbers_for(const std::optional<std::string>& dtype) {
  try {
    return dtype ? numbers_for(dtype_named(*dtype)) : JsonNumbers::floating_or_text;
  } catch (const Error&) {
    return JsonNumbers::floating_or_text; // json_tensor() refuses the dtype with its place
  }
}

Tensor json_tensor(JsonScanner& scanner, const JsonValue* shape_value, const JsonValue* dtype_value,
                   JsonValue& data) {
  DType dtype = DType::f64;
  if (dtype_value) {
    if (!dtype_value->scalar) scanner.refuse("\"dtype\" must be a word", dtype_value->at);
    dtype = placed(scanner, dtype_value->at, [&] { return dtype_named(*dtype_value->scalar); });
  }
  std::optional<Shape> shape;
  if (shape_value) shape = declared_shape(scanner, *shape_value);

  const char* at = data.at;
  Tensor numbers = numbers_of(scanner, data, numbers_for(dtype));
  if (!dtype_value) dtype = numbers.dtype();
  if (shape) {
    placed(scanner, shape_value->at, [&] {
      require_sensible("\"shape\"", *shape);
      return true;
    });
    const std::size_t count = placed(scanner, shape_value->at, [&] { return count_of(*shape); });
    const Shape& found = numbers.shape();
    const bool flat = found.size() <= 1 && numbers.count() == count;
    const bool none = numbers.count() == 0 && count == 0 && found.size() <= shape->size() &&
                      std::equal(found.begin(), found.end(), shape->begin());
    if (found != *shape && !flat && !none)
      scanner.refuse(
          fmt::format("\"data\" is {}, but \"shape\" is {}", to_string(found), to_string(*shape)),
          at);
    numbers = numbers.reshaped(*shape);
  }
  return fitted(scanner, numbers, dtype, at);
}

} // namespace mha::io
