#pragma once
// Axes of a file's tensors: @AXES brought into the order of the tables.

#include <mha/tensor/tensor.hpp>

#include <string>

namespace mha {

struct AppliedAxes {
  std::string name; ///< canonical; q becomes Q where the axes are those of packed heads
  Tensor tensor;
};

/// `tensor`, whose axes are `axes` (letters LBHTSDCIO; "" = the order of the tables), as the
/// canonical tensor or stage `name`. Axes of one that it has beyond these are left out. An L axis
/// is entered at `layer`. Axes that the table does not have are merged (heads and widths into all
/// widths) or made (a mask without H gets one of size 1). Throws Error "WHERE: …" where letters do
/// not fit the name or their number the array.
AppliedAxes apply_axes(const std::string& name, const Tensor& tensor, std::string_view axes,
                       std::size_t layer, const std::string& where);

/// A shape without axes of one until it has at most `most`: those at the end go first, all of them
/// as long as it keeps `least` (0: any number).
Shape without_ones(Shape shape, std::size_t most, std::size_t least = 0);

/// The number of layers on the L axis of such a tensor (five axes of weights are LBHTS); 0 if it
/// has none.
std::size_t layers_of(const std::string& name, const Shape& shape, std::string_view axes);

} // namespace mha
