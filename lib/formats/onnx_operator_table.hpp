#pragma once
// Attributes and inputs of attention's operators, each with what is done with it: private to
// onnx_operators.cpp.

#include <mha/formats/onnx_flow.hpp>

namespace mha::io {

/// Why an operator is not read: its first attribute or input that means something which is not
/// computed, or that no version of the operator has. "" where there is none.
std::string onnx_unread_part(const OnnxFlow& flow, const OnnxStep& step);

/// Whether any operator of attention is called so, by whomever: one that is not read is refused.
bool is_attention_operator(const OnnxStep& step);

} // namespace mha::io
