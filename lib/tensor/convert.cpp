// Conversion between dtypes. Each pair of dtypes has its own loop, which the compiler vectorises.

#include <mha/system/cpu.hpp>
#include <mha/tensor/halves.hpp>
#include <mha/tensor/tensor.hpp>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>
#include <utility>

namespace mha {

namespace {

// Types for the two 2-byte floats and bool, so that overloads can distinguish them from integers.
struct Half {
  std::uint16_t bits;
};
struct Brain {
  std::uint16_t bits;
};
struct Bool {
  std::uint8_t byte;
};

inline float widen(Half half) {
  // The exponent and mantissa, moved into place, are the value times 2^-112; one product scales
  // them, subnormals included.
  const std::uint32_t magnitude = (half.bits & 0x7fffu) << 13;
  const std::uint32_t sign = (half.bits & 0x8000u) << 16;
  const std::uint32_t scaled =
      std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude) * 0x1p112f);
  const std::uint32_t special = magnitude >= 0x0f800000u ? 0x7f800000u : 0u; // Inf, NaN
  return std::bit_cast<float>(scaled | special | sign);
}
inline float widen(Brain brain) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(brain.bits) << 16);
}

inline Half narrow_half(float value) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = (bits >> 16) & 0x8000u;
  const std::uint32_t magnitude = bits & 0x7fffffffu;
  std::uint32_t half = 0;
  if (magnitude > 0x7f800000u) { // NaN: its upper bits, and never an infinity
    half = 0x7e00u | ((magnitude >> 13) & 0x3ffu);
  } else if (magnitude >= 0x477ff000u) { // rounds beyond 65504
    half = 0x7c00u;
  } else if (magnitude < 0x38800000u) { // subnormal: adding 0.5 rounds at 2^-24, as wanted
    const float sum = std::bit_cast<float>(magnitude) + 0.5f;
    half = std::bit_cast<std::uint32_t>(sum) - 0x3f000000u;
  } else {
    const std::uint32_t odd = (magnitude >> 13) & 1u;
    half = (magnitude - 0x38000000u + 0xfffu + odd) >> 13;
  }
  return {static_cast<std::uint16_t>(sign | half)};
}
inline Brain narrow_brain(float value) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return {static_cast<std::uint16_t>((bits >> 16) | 0x40u)};
  return {static_cast<std::uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16)};
}

/// Rounds double to float by rounding to odd, so that a second rounding to fewer bits is correct.
inline float to_odd(double value) {
  const auto nearest = static_cast<float>(value);
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(nearest);
  if (static_cast<double>(nearest) == value || std::isnan(value) || (bits & 1u) != 0)
    return nearest;
  const bool away = std::fabs(static_cast<double>(nearest)) > std::fabs(value);
  return std::bit_cast<float>(away ? bits - 1 : bits + 1);
}

/// A stored element as a C++ number: halves as float, bool as 0 or 1.
template <class T> inline auto number(T stored) {
  if constexpr (std::is_same_v<T, Half> || std::is_same_v<T, Brain>)
    return widen(stored);
  else if constexpr (std::is_same_v<T, Bool>)
    return static_cast<std::uint8_t>(stored.byte != 0);
  else
    return stored;
}

/// A number as a stored To: floats round to nearest even, integers saturate, NaN becomes 0.
template <class To, class From> inline To stored(From value) {
  if constexpr (std::is_same_v<To, Bool>) {
    return {static_cast<std::uint8_t>(value != From{0})};
  } else if constexpr (std::is_same_v<To, Half> || std::is_same_v<To, Brain>) {
    float single = 0;
    if constexpr (std::is_same_v<From, float>)
      single = value;
    else
      single = to_odd(static_cast<double>(value));
    if constexpr (std::is_same_v<To, Half>)
      return narrow_half(single);
    else
      return narrow_brain(single);
  } else if constexpr (std::is_floating_point_v<To>) {
    return static_cast<To>(value);
  } else if constexpr (std::is_floating_point_v<From>) {
    constexpr auto low = static_cast<double>(std::numeric_limits<To>::min());
    constexpr double high = static_cast<double>(std::numeric_limits<To>::max());
    const double rounded = std::nearbyint(static_cast<double>(value));
    if (!(rounded > low)) return std::isnan(rounded) ? To{0} : std::numeric_limits<To>::min();
    if (rounded >= high) return std::numeric_limits<To>::max();
    return static_cast<To>(rounded);
  } else {
    if (std::cmp_less(value, std::numeric_limits<To>::min())) return std::numeric_limits<To>::min();
    if (std::cmp_greater(value, std::numeric_limits<To>::max()))
      return std::numeric_limits<To>::max();
    return static_cast<To>(value);
  }
}

/// Calls `use` with a value of the type that stores `dtype`.
template <class Use> void with_type(DType dtype, Use use) {
  switch (dtype) {
  case DType::f64:
    return use(double{});
  case DType::f32:
    return use(float{});
  case DType::f16:
    return use(Half{});
  case DType::bf16:
    return use(Brain{});
  case DType::i64:
    return use(std::int64_t{});
  case DType::i32:
    return use(std::int32_t{});
  case DType::i16:
    return use(std::int16_t{});
  case DType::i8:
    return use(std::int8_t{});
  case DType::u64:
    return use(std::uint64_t{});
  case DType::u32:
    return use(std::uint32_t{});
  case DType::u16:
    return use(std::uint16_t{});
  case DType::u8:
    return use(std::uint8_t{});
  case DType::boolean:
    return use(Bool{});
  }
}

/// The processor's own instructions for halves, or nullptr.
const HalfKernels* half_kernels() {
#if defined(__x86_64__)
  if (runs_avx2()) return &avx2_halves;
#elif defined(__aarch64__)
  if (runs_neon()) return &neon_halves;
#endif
  return nullptr;
}

} // namespace

float from_half(std::uint16_t bits) {
  return widen(Half{bits});
}
std::uint16_t to_half(float value) {
  return narrow_half(value).bits;
}
float from_bfloat16(std::uint16_t bits) {
  return widen(Brain{bits});
}
std::uint16_t to_bfloat16(float value) {
  return narrow_brain(value).bits;
}

void convert(const std::byte* from, DType from_dtype, std::byte* to, DType to_dtype,
             std::size_t count) {
  if (count == 0) return;
  if (from_dtype == to_dtype) {
    std::memcpy(to, from, count * size_of(to_dtype));
    return;
  }
  if (const HalfKernels* const halves = half_kernels()) {
    if (from_dtype == DType::f32 && to_dtype == DType::f16)
      return halves->narrow(reinterpret_cast<const float*>(from),
                            reinterpret_cast<std::uint16_t*>(to), count);
    if (from_dtype == DType::f16 && to_dtype == DType::f32)
      return halves->widen(reinterpret_cast<const std::uint16_t*>(from),
                           reinterpret_cast<float*>(to), count);
  }
  with_type(from_dtype, [&]<class From>(From) {
    with_type(to_dtype, [&]<class To>(To) {
      const auto* source = reinterpret_cast<const From*>(from);
      auto* target = reinterpret_cast<To*>(to);
      for (std::size_t i = 0; i < count; ++i) target[i] = stored<To>(number(source[i]));
    });
  });
}

Tensor convert(const Tensor& tensor, DType dtype) {
  if (tensor.empty() || tensor.dtype() == dtype) return tensor;
  Tensor result = Tensor::uninitialised(dtype, tensor.shape());
  convert(tensor.raw(), tensor.dtype(), result.raw_mutable(), dtype, tensor.count());
  return result;
}

Tensor rounded_to(const Tensor& tensor, DType dtype) {
  return convert(convert(tensor, dtype), tensor.dtype());
}

std::vector<double> values_in_double(const Tensor& tensor) {
  std::vector<double> values(tensor.count());
  if (values.empty()) return values;
  with_type(tensor.dtype(), [&]<class T>(T) {
    const auto* from = reinterpret_cast<const T*>(tensor.raw());
    for (std::size_t i = 0; i < values.size(); ++i)
      values[i] = static_cast<double>(number(from[i]));
  });
  return values;
}

double value_at(const Tensor& tensor, std::size_t index) {
  if (index >= tensor.count()) fail("index {} is outside of {} elements", index, tensor.count());
  double value = 0;
  with_type(tensor.dtype(), [&]<class T>(T) {
    value = static_cast<double>(number(reinterpret_cast<const T*>(tensor.raw())[index]));
  });
  return value;
}

} // namespace mha
