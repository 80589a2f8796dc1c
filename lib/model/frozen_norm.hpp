#pragma once
// A norm whose statistics are frozen is linear: each part of a sum goes through it by itself, and
// the parts' results add up to the sum's (Elhage et al. 2021).

#include <mha/layer/block.hpp>

#include <cstddef>
#include <vector>

namespace mha {

using Row = std::vector<double>;

/// Row `row` of a tensor whose rows have `width` numbers.
Row row_of(const Tensor& tensor, std::size_t row, std::size_t width);
/// A vector of a norm, as it multiplies or is added; empty: `otherwise`.
Row vector_of(const Tensor& tensor, std::size_t width, double otherwise);

/// By what a norm divides, and what it subtracts, on a row: the statistics that are frozen.
struct Statistics {
  double mean = 0, divisor = 1;
};
Statistics statistics_of(const Norm& norm, const Row& row);

/// A part of a normalised row: centred by itself where the norm centres, then divided and scaled;
/// without the norm's bias.
Row frozen(const Norm& norm, const Statistics& statistics, Row part);

} // namespace mha
