#include <mha/observe/packing.hpp>

#include <mha/system/error.hpp>

#include <zlib.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

namespace mha {

static_assert(std::endian::native == std::endian::little, "packed numbers are little-endian");

namespace {

constexpr std::uint16_t largest_code = rounded_nan - 1;

} // namespace

template <class T>
RowScale round_row(const T* row, std::ptrdiff_t stride, std::uint16_t* codes, std::size_t count) {
  double low = std::numeric_limits<double>::infinity(), high = -low;
  const auto number = [&](std::size_t i) {
    return static_cast<double>(row[static_cast<std::ptrdiff_t>(i) * stride]);
  };
  for (std::size_t i = 0; i < count; ++i)
    if (std::isfinite(number(i))) low = std::min(low, number(i)), high = std::max(high, number(i));
  RowScale scale;
  if (low <= high) {
    // The smallest is rounded to float first, because the reader adds codes to that float.
    scale.smallest = static_cast<float>(low);
    scale.step = static_cast<float>((high - static_cast<double>(scale.smallest)) / largest_code);
  }
  for (std::size_t i = 0; i < count; ++i) {
    const double value = number(i);
    if (std::isfinite(value)) {
      const double steps =
          scale.step > 0 ? (value - static_cast<double>(scale.smallest)) / scale.step : 0;
      codes[i] =
          static_cast<std::uint16_t>(std::clamp(std::round(steps), 0.0, double{largest_code}));
    } else {
      codes[i] = std::isnan(value) ? rounded_nan
                 : value > 0       ? rounded_infinity
                                   : rounded_minus_infinity;
    }
  }
  return scale;
}

template RowScale round_row(const float*, std::ptrdiff_t, std::uint16_t*, std::size_t);
template RowScale round_row(const double*, std::ptrdiff_t, std::uint16_t*, std::size_t);

void append_planes(std::string& out, const void* elements, std::size_t count, std::size_t size) {
  const char* bytes = static_cast<const char*>(elements);
  const std::size_t start = out.size();
  out.resize(start + count * size);
  for (std::size_t byte = 0; byte < size; ++byte)
    for (std::size_t i = 0; i < count; ++i) out[start + byte * count + i] = bytes[i * size + byte];
}

std::string deflated(const std::string& bytes) {
  uLongf size = compressBound(bytes.size());
  std::string out(size, '\0');
  if (compress2(reinterpret_cast<Bytef*>(out.data()), &size,
                reinterpret_cast<const Bytef*>(bytes.data()), bytes.size(), 6) != Z_OK)
    fail("{} bytes could not be packed", bytes.size());
  out.resize(size);
  return out;
}

} // namespace mha
