#pragma once
// Shapes of a graph's values for a short input: private to onnx_flow.cpp.

#include <mha/formats/onnx_flow.hpp>

namespace mha::io {

/// Sets shapes, what is fixed and the numbers of short fixed values, step by step; which branch of
/// an If is the one. What no rule gives stays unknown, and a projection then takes an input of one
/// text of OnnxFlow::length tokens.
void infer_onnx_shapes(OnnxFlow& flow);

/// The first place of a slice and how many there are, of an axis of `length`.
std::pair<std::int64_t, std::int64_t> onnx_slice(std::int64_t start, std::int64_t end,
                                                 std::int64_t step, std::int64_t length);

/// An axis' place counted from the front; -1 where there is none.
std::int64_t onnx_axis(std::int64_t axis, std::size_t rank);

} // namespace mha::io
