#pragma once
// MatMul, Gemm and Einsum as one thing: a sum over letters that two values share.

#include <mha/formats/onnx_flow.hpp>

#include <array>
#include <span>

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

/// The place of each letter; 0 where none was set.
class OnnxIndex {
public:
  std::int64_t& operator[](char letter) { return places_[slot(letter)]; }
  std::int64_t operator[](char letter) const { return places_[slot(letter)]; }

private:
  static constexpr std::size_t slots = 64; ///< A to Z and a to z lie within as many
  static std::size_t slot(char letter) { return static_cast<std::size_t>(letter - 'A') % slots; }
  std::array<std::int64_t, slots> places_{};
};

/// The sum that a step is, or nothing where it is none of two values with known shapes.
std::optional<OnnxContraction> onnx_contraction(const OnnxFlow& flow, const OnnxStep& step);
/// The flat index of an element whose letters have these places; an axis of length 1 repeats.
std::int64_t onnx_flat(const std::vector<std::int64_t>& shape, const std::string& axes,
                       const OnnxIndex& index);
/// The places of a flat index, one an axis.
OnnxPlaces onnx_places(const OnnxDims& shape, std::int64_t flat);
std::int64_t onnx_flat(const OnnxDims& shape, std::span<const std::int64_t> places);
/// The flat index of the element of `shape` that is repeated at a flat index of `out`, whose last
/// axes are those of `shape`.
std::int64_t onnx_flat_of_repeated(const OnnxDims& shape, const OnnxDims& out, std::int64_t flat);
/// The flat index of a place in a map of queries and keys: head, query and key, where the head
/// counts all axes but those two.
std::int64_t onnx_flat_of_map(const OnnxDims& shape, std::size_t query_axis, std::size_t key_axis,
                              std::array<std::int64_t, 3> place);
/// Whether a product adds nothing: Gemm may add a third input.
bool is_only_a_product(const OnnxStep& step);

} // namespace mha::io
