#pragma once
// The buckets of distances in T5's relative position bias.

#include <cstddef>

namespace mha {

/// The bucket of a distance in T5's relative bias (Raffel et al. 2020, as in Hugging Face): half of
/// `buckets` are exact, the rest grow logarithmically up to `max_distance`.
std::size_t relative_bucket(std::size_t distance, std::size_t buckets, std::size_t max_distance);

} // namespace mha
