#pragma once
// The numbers of ONNX's tensors: in raw_data, in typed fields, or in a file beside the model.

#include <mha/formats/onnx_model.hpp>

#include <functional>
#include <optional>

namespace mha::io {

/// A tensor whose place and size have been checked.
struct OnnxArray {
  std::string name;
  DType dtype = DType::f32;
  Shape shape;
  std::function<Tensor()> read;
};

/// "FLOAT8E4M3FN" of a TensorProto.DataType.
std::string onnx_type_name(std::int64_t type);

/// Finds the numbers of tensors. Files beside the model are mapped once and read on demand.
class OnnxStore {
public:
  explicit OnnxStore(Bytes bytes) : bytes_(std::make_shared<const Bytes>(std::move(bytes))) {}
  /// The tensor, or nothing if its type is unsupported (text, complex numbers, newer types of 8 and
  /// 4 bits). Throws Error "model.onnx: W: …" if its numbers are missing, too few, or outside of
  /// the model's folder.
  std::optional<OnnxArray> array(const OnnxTensor& tensor, std::string name);
  const Bytes& bytes() const { return *bytes_; }
  const std::shared_ptr<const Bytes>& shared_bytes() const { return bytes_; }

private:
  std::function<Tensor()> external(const OnnxTensor& tensor, const std::string& where,
                                   const OnnxArray& array, std::uint64_t bytes);
  std::shared_ptr<const Bytes> file_beside(const std::string& where, std::string_view location);

  std::shared_ptr<const Bytes> bytes_;
  std::map<std::string, std::shared_ptr<const Bytes>, std::less<>> beside_;
};

} // namespace mha::io
