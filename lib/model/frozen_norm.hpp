#pragma once
// A norm whose statistics are frozen is linear: each part of a sum goes through it by itself, and
// the parts' results add up to the sum's (Elhage et al. 2021).

#include <mha/layer/block.hpp>

#include <cstddef>
#include <vector>

namespace mha {

using DoubleRow = std::vector<double>;

/// DoubleRow `row` of a tensor whose rows have `width` numbers.
DoubleRow row_of(const Tensor& tensor, std::size_t row, std::size_t width);
/// A vector of a norm, as it multiplies or is added; empty: `otherwise`.
DoubleRow vector_of(const Tensor& tensor, std::size_t width, double otherwise);

/// By what a norm divides, and what it subtracts, on a row: the statistics that are frozen.
struct NormStatistics {
  double mean = 0, divisor = 1;
};
NormStatistics statistics_of(const Norm& norm, const DoubleRow& row);

/// A part of a normalised row: centred by itself where the norm centres, then divided and scaled;
/// without the norm's bias.
DoubleRow frozen(const Norm& norm, const NormStatistics& statistics, DoubleRow part);

} // namespace mha
