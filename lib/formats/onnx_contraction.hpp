#pragma once
// MatMul, Gemm and Einsum in a common form: a sum over letters that two values share.

#include <mha/formats/onnx_flow.hpp>

#include <array>
#include <span>

namespace mha::io {

/// out[o…] = Σ a[…] b[…], with a letter for each axis.
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
  static constexpr std::size_t slots = 64; ///< covers the characters from A to z
  static std::size_t slot(char letter) { return static_cast<std::size_t>(letter - 'A') % slots; }
  std::array<std::int64_t, slots> places_{};
};

/// A step as a contraction; nothing if it is not one or a shape is unknown.
std::optional<OnnxContraction> onnx_contraction(const OnnxFlow& flow, const OnnxStep& step);
/// The flat index of an element whose letters have these places; an axis of length 1 repeats.
std::int64_t onnx_flat(const std::vector<std::int64_t>& shape, const std::string& axes,
                       const OnnxIndex& index);
/// The position of a flat index along each axis.
OnnxPlaces onnx_places(const OnnxDims& shape, std::int64_t flat);
std::int64_t onnx_flat(const OnnxDims& shape, std::span<const std::int64_t> places);
/// The flat index in `shape` of the element that broadcasting repeats at a flat index of `out`.
std::int64_t onnx_flat_of_repeated(const OnnxDims& shape, const OnnxDims& out, std::int64_t flat);
/// The flat index of (head, query, key) in a map of queries and keys; the head counts all other
/// axes.
std::int64_t onnx_flat_of_map(const OnnxDims& shape, std::size_t query_axis, std::size_t key_axis,
                              std::array<std::int64_t, 3> place);
/// Whether a product adds no third input, as Gemm may.
bool is_only_a_product(const OnnxStep& step);

} // namespace mha::io
