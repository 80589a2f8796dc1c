#include <mha/model/frozen_norm.hpp>

#include <cmath>

namespace mha {

DoubleRow row_of(const Tensor& tensor, std::size_t row, std::size_t width) {
  DoubleRow numbers(width);
  for (std::size_t i = 0; i < width; ++i) numbers[i] = value_at(tensor, row * width + i);
  return numbers;
}

DoubleRow vector_of(const Tensor& tensor, std::size_t width, double otherwise) {
  return tensor.empty() ? DoubleRow(width, otherwise) : row_of(tensor, 0, width);
}

NormStatistics statistics_of(const Norm& norm, const DoubleRow& row) {
  NormStatistics found;
  if (norm.kind == InputNorm::none || norm.kind == InputNorm::affine) return found;
  const double n = static_cast<double>(row.size());
  double sum = 0, squares = 0;
  for (const double x : row) sum += x;
  if (norm.kind == InputNorm::layer) found.mean = sum / n;
  for (const double x : row) squares += (x - found.mean) * (x - found.mean);
  found.divisor = std::sqrt(squares / n + norm.eps);
  return found;
}

DoubleRow frozen(const Norm& norm, const NormStatistics& statistics, DoubleRow part) {
  if (norm.kind == InputNorm::none) return part;
  const DoubleRow gain = vector_of(norm.weight, part.size(), norm.one_plus ? 0 : 1);
  double mean = 0;
  if (norm.kind == InputNorm::layer) {
    for (const double x : part) mean += x;
    mean /= static_cast<double>(part.size());
  }
  for (std::size_t i = 0; i < part.size(); ++i)
    part[i] = (part[i] - mean) / statistics.divisor * (gain[i] + (norm.one_plus ? 1 : 0));
  return part;
}

} // namespace mha
