#pragma once
// How a described tensor lies in the file, and what is made of it when it is read: the inside of
// described.cpp.

#include <mha/files/contents.hpp>

#include <string>
#include <string_view>
#include <vector>

namespace mha {

/// The shape with as many axes as `rank`, where the others have one element; the shape itself where
/// that cannot be.
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
/// Columns [first, first + count) of the last axis of a matrix or vector.
io::Entry columns_entry(const io::Entry& from, std::size_t first, std::size_t count);
/// Of a last axis of groups · (sum of `sizes`) · width, the part `which` of every group.
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
