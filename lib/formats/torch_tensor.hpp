#pragma once
// PyTorch's tensors: views of storages with an offset and strides.

#include <mha/files/contents.hpp>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace mha::io {

/// The numbers of one storage, checked against the file.
struct TorchStorage {
  /// Nothing for untyped bytes, whose type each tensor declares itself.
  std::optional<DType> dtype;
  std::uint64_t bytes = 0;
  bool swapped = false; ///< the numbers have the other byte order
  /// Returns `count` bytes from `first` on.
  std::function<std::shared_ptr<const std::byte>(std::uint64_t first, std::uint64_t count)> read;
};

/// The meaning of a storage class or dtype of PyTorch: "FloatStorage", "float32".
struct TorchType {
  std::optional<DType> dtype; ///< nothing for unsupported types and untyped bytes
  std::size_t size = 1;       ///< bytes of an element
  bool untyped = false;
  std::string name;                  ///< "complex64", for messages
  const BlockType* floats = nullptr; ///< of 8 bits, where `dtype` is uint8
};
/// The type for "torch.FloatStorage", "torch.cuda.HalfStorage", "torch.storage.UntypedStorage",
/// "torch.bfloat16"; throws Error at `where` for other names and for quantised types.
TorchType torch_type(const std::string& where, const std::string& name);

/// A tensor's place in its storage.
struct TorchView {
  std::uint64_t offset = 0; ///< in elements
  std::vector<std::uint64_t> sizes, strides;
};

/// The tensor as an entry. Throws Error at `where` if the view leads out of the storage, or would
/// be very many times larger than it.
Entry torch_entry(const std::string& where, std::string name, DType dtype, const TorchView& view,
                  std::shared_ptr<const TorchStorage> storage);

} // namespace mha::io
