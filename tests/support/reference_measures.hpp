#pragma once
// The measures of heads once more, straight from their formulas in docs/stats.md: plain loops in
// double precision over stages that were kept whole. Shares no code with the library's.

#include <mha/layer/layer.hpp>

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace reference {

/// What is measured; nothing: everything.
struct MeasuredPart {
  std::vector<std::size_t> batches, queries;
  std::size_t window = 8;
};

/// By the name of its column; one that cannot be computed is not there.
using Measures = std::map<std::string, double>;

/// One of each head. `layer` must be able to compute its weights.
std::vector<Measures> measure(const mha::Layer& layer, const MeasuredPart& part = {});

/// The singular values of a matrix (rows × cols), largest first, by one-sided Jacobi rotations.
std::vector<double> singular_values(std::vector<double> matrix, std::size_t rows, std::size_t cols);

} // namespace reference
