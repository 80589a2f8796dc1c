#pragma once
// MatMul, Gemm and Einsum as one thing: a sum over letters that two values share.

#include <mha/formats/onnx_flow.hpp>

#include <array>

namespace mha::io {

/// out[o…] = Σ a[…] b[…]: a letter for each axis of each.
struct OnnxContraction {
  int a = -1, b = -1;
  std::string a_axes, b_axes, out_axes;
  std::map<char, std::int64_t> lengths;

  /// The letters of a and b that are summed over.
  std::string summed() const;
  bool has(const std::string& axes, char letter) const { return axes.find(letter) != axes.npos; }
  /// Whether an operand of this shape is shorter than the sum along one of its axes.
  bool repeats(const OnnxDims& shape, const std::string& axes) const;
};

using OnnxIndex = std::map<char, std::int64_t>;

/// The sum that a step is, or nothing where it is none of two values with known shapes.
std::optional<OnnxContraction> onnx_contraction(const OnnxFlow& flow, const OnnxStep& step);
/// The flat index of an element whose letters have these places; an axis of length 1 repeats.
std::int64_t onnx_flat(const std::vector<std::int64_t>& shape, const std::string& axes,
                       const OnnxIndex& index);
/// The places of a flat index, one an axis.
std::vector<std::int64_t> onnx_places(const std::vector<std::int64_t>& shape, std::int64_t flat);
std::int64_t onnx_flat(const std::vector<std::int64_t>& shape,
                       const std::vector<std::int64_t>& places);
/// The flat index of a place in a map of queries and keys: head, query and key, where the head
/// counts all axes but those two.
std::int64_t onnx_flat_of_map(const OnnxDims& shape, std::size_t query_axis, std::size_t key_axis,
                              std::array<std::int64_t, 3> place);
/// Whether a product adds nothing: Gemm may add a third input.
bool is_only_a_product(const OnnxStep& step);

} // namespace mha::io
