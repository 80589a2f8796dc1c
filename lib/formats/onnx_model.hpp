#pragma once
// ONNX's ModelProto in a file: nodes, attributes, tensors. Field numbers are those of
// https://github.com/onnx/onnx/blob/main/onnx/onnx.proto.

#include <mha/files/contents.hpp>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace mha::io {

/// A tensor's description, with references to its numbers in the file.
struct OnnxTensor {
  std::string_view name;
  std::vector<std::int64_t> dims;
  std::int64_t type = 0; ///< TensorProto.DataType
  bool has_raw = false;
  std::string_view raw;
  /// Pieces of float_data, int32_data, int64_data, double_data or uint64_data, and the field
  /// number.
  std::uint32_t typed_field = 0;
  std::vector<std::string_view> typed;
  std::vector<std::int64_t> loose; ///< integers that were written one by one
  bool external = false;
  std::map<std::string_view, std::string_view> place; ///< location, offset, length
};

struct OnnxGraph;

struct OnnxAttribute {
  std::string_view name;
  std::string_view reference; ///< in a function: the call's attribute that it refers to
  std::optional<float> number;
  std::optional<std::int64_t> integer;
  std::optional<std::string_view> text;
  std::shared_ptr<const OnnxTensor> tensor;
  std::shared_ptr<const OnnxGraph> graph;
  std::vector<float> numbers;
  std::vector<std::int64_t> integers;
  bool sparse = false;
};

struct OnnxNode {
  std::string_view op, domain, name;
  std::vector<std::string_view> inputs, outputs;
  std::vector<OnnxAttribute> attributes;

  const OnnxAttribute* find(std::string_view attribute) const;
  std::int64_t integer(std::string_view attribute, std::int64_t otherwise) const;
};

/// One axis of an input: its length, or a name for it, or neither.
struct OnnxDim {
  std::int64_t length = -1;
  std::string_view name;
};

/// The description of an input, an output or another value.
struct OnnxValueInfo {
  std::string_view name;
  std::int64_t type = 0;
  bool has_shape = false;
  std::vector<OnnxDim> dims;
};

struct OnnxGraph {
  std::string_view name;
  std::vector<OnnxNode> nodes;
  std::vector<OnnxTensor> initializers;
  std::vector<OnnxValueInfo> inputs, outputs, values;
  std::vector<std::string_view> sparse; ///< names of sparse initializers
};

/// A function that the model defines, which nodes call by domain and name.
struct OnnxFunction {
  std::string_view name, domain;
  std::vector<std::string_view> inputs, outputs;
  std::vector<OnnxNode> nodes;
  std::vector<OnnxAttribute> defaults;
};

struct OnnxModel {
  std::int64_t ir_version = 0;
  std::string_view producer, producer_version;
  std::vector<std::pair<std::string_view, std::int64_t>> opsets;
  OnnxGraph graph;
  std::vector<OnnxFunction> functions;
};

/// Reads the structure without copying numbers. Throws Error for invalid messages, for graphs
/// nested deeper than a limit, and for a file without a graph.
OnnxModel parse_onnx(const Bytes& bytes);

} // namespace mha::io
