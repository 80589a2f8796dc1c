#include "support/compare.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

namespace {

std::string indexes_of(std::size_t flat, const mha::Shape& shape) {
  mha::Shape place(shape.size());
  for (std::size_t axis = shape.size(); axis-- > 0; flat /= shape[axis])
    place[axis] = flat % shape[axis];
  return mha::to_string(place);
}

std::string shapes_differ(const mha::Tensor& got, const mha::Tensor& want) {
  return fmt::format("shape {}, expected {}", mha::to_string(got.shape()),
                     mha::to_string(want.shape()));
}

} // namespace

std::string compare(const mha::Tensor& got, const mha::Tensor& want, double bound) {
  if (got.shape() != want.shape()) return shapes_differ(got, want);
  double worst = 0;
  std::size_t worst_at = 0;
  const auto say = [&](std::size_t i, std::string_view what) {
    return fmt::format("{}: {}, expected {} at {}; bound {}", what, mha::value_at(got, i),
                       mha::value_at(want, i), indexes_of(i, want.shape()), bound);
  };
  for (std::size_t i = 0; i < want.count(); ++i) {
    const double a = mha::value_at(got, i), b = mha::value_at(want, i);
    if (a == b || (std::isnan(a) && std::isnan(b))) continue;
    if (!std::isfinite(a) || !std::isfinite(b)) return say(i, "not finite at the same places");
    if (std::fabs(a - b) > worst) worst = std::fabs(a - b), worst_at = i;
  }
  return worst <= bound ? std::string() : say(worst_at, fmt::format("off by {}", worst));
}

std::string compare_bits(const mha::Tensor& got, const mha::Tensor& want) {
  if (got.shape() != want.shape() || got.dtype() != want.dtype()) return shapes_differ(got, want);
  if (std::memcmp(got.raw(), want.raw(), want.bytes()) == 0) return {};
  const std::size_t element = mha::size_of(want.dtype());
  for (std::size_t i = 0; i < want.count(); ++i)
    if (std::memcmp(got.raw() + i * element, want.raw() + i * element, element) != 0)
      return fmt::format("{:.17g}, expected {:.17g} at {}", mha::value_at(got, i),
                         mha::value_at(want, i), indexes_of(i, want.shape()));
  return {};
}

double magnitude(const mha::Tensor& tensor) {
  double largest = 0;
  for (std::size_t i = 0; i < tensor.count(); ++i)
    if (const double value = std::fabs(mha::value_at(tensor, i)); std::isfinite(value))
      largest = std::max(largest, value);
  return largest;
}

double magnitude(const reference::Array& array) {
  double largest = 0;
  for (double value : array.values)
    if (std::isfinite(value)) largest = std::max(largest, std::fabs(value));
  return largest;
}

double rounding_bound(const RandomLayer& random, double logits, double size) {
  const reference::Layer& layer = random.layer;
  if (!random.form.single) return 1e-12 * (layer.naive ? 1 + logits : 1) * (1 + size);
  const std::size_t depth = layer.X.shape[2] + (layer.X_k.empty() ? 0 : layer.X_k.shape[2]) +
                            layer.d_k + layer.S_all() + layer.H * layer.d_v +
                            (layer.d_pe == 0 ? 0 : layer.W_kv_a.shape[1] + layer.X.shape[2]) + 16;
  return std::numeric_limits<float>::epsilon() * static_cast<double>(depth) * (1 + logits) *
         (1 + size);
}
