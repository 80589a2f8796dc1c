#include <mha/load/buckets.hpp>

#include <mha/maths/functions.hpp>

#include <algorithm>

namespace mha {

std::size_t relative_bucket(std::size_t distance, std::size_t buckets, std::size_t max_distance) {
  const std::size_t exact = buckets / 2;
  if (distance < exact) return distance;
  // In float, as PyTorch computes it: a distance on the border of two buckets falls where it does
  // there.
  const float position = maths::log(static_cast<float>(distance) / static_cast<float>(exact)) /
                         static_cast<float>(maths::log(static_cast<double>(max_distance) /
                                                       static_cast<double>(exact))) *
                         static_cast<float>(buckets - exact);
  return std::min(exact + static_cast<std::size_t>(position), buckets - 1);
}

} // namespace mha
