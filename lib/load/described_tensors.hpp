#pragma once
// Converts described tensors from their layout in the file when they are read.

#include <mha/files/contents.hpp>

#include <string>
#include <string_view>
#include <vector>

namespace mha {

/// The shape without axes of one element, down to `rank` axes; unchanged where that is impossible.
Shape squeezed(const Shape& shape, std::size_t rank);

/// A tensor of the file whose axes are `letters` (i, o, h), read as the axes `wanted`: "io" of
/// "oi" is transposed when it is read.
io::Entry turned_entry(const io::Entry& from, const std::string& letters,
                       const std::string& wanted);
/// Matrices or vectors of each head, one after the other on a leading axis.
io::Entry stacked_entry(const std::vector<io::Entry>& of_heads);
/// The same numbers in another shape.
io::Entry reshaped_entry(const io::Entry& from, const Shape& shape);
/// The numbers times `scale`, in float64.
io::Entry scaled_entry(const io::Entry& from, double scale);
/// The last axis multiplied by a vector of as many numbers, in float64.
io::Entry multiplied_entry(const io::Entry& from, const io::Entry& by);
/// Matrices of one width, one below the other.
io::Entry below_entry(const std::vector<io::Entry>& parts);
/// Numbers from the description itself.
io::Entry values_entry(const std::string& file, std::vector<double> values);
/// √((n − 1) / n) for a norm's weight of n numbers: this factor turns division by the deviation of
/// n − 1 into a layer norm.
double deviation_scale(const io::Entry& weight);
/// Rows of positions, (length, width), in float64: of the pair i of n = width / 2 the sine and the
/// cosine of p · base^(−i/n), or base^(−i/(n − 1)) where they are `inclusive` (Vaswani et al. 2017,
/// 3.5); side by side, or all sines and then all cosines (`halves`).
struct Sinusoid {
  std::size_t length = 0, width = 0;
  double base = 10000;
  bool halves = false, inclusive = false;
};
io::Entry sinusoid_entry(const Sinusoid& sinusoid);
/// Columns [first, first + count) of the last axis of a matrix or vector.
io::Entry columns_entry(const io::Entry& from, std::size_t first, std::size_t count);
/// Every second column, from `first` on.
io::Entry every_second_entry(const io::Entry& from, std::size_t first);
/// The part `which` of every group, for a last axis of groups · (sum of `sizes`) · width.
io::Entry grouped_entry(const io::Entry& from, std::size_t groups,
                        const std::vector<std::size_t>& sizes, std::size_t which);

/// A batch norm in inference, y = (x − mean) / √(variance + eps) · weight + bias, as one weight and
/// one bias; in float64. Empty weight and bias: 1 and 0.
struct BatchNorm {
  const io::Entry *weight = nullptr, *bias = nullptr, *mean = nullptr, *variance = nullptr;
  double eps = 1e-5;
};
io::Entry folded_weight(const BatchNorm& norm);
io::Entry folded_bias(const BatchNorm& norm);

} // namespace mha
