#pragma once
// A tensor of PyTorch: a storage, and which of its numbers the tensor is, by offset and strides.

#include <mha/files/contents.hpp>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace mha::io {

/// The numbers of one storage, checked against the file.
struct TorchStorage {
  /// Nothing where it is of bytes, which each tensor says the type of.
  std::optional<DType> dtype;
  std::uint64_t bytes = 0;
  bool swapped = false; ///< the numbers have the other byte order
  /// The bytes from `first` on, `count` of them.
  std::function<std::shared_ptr<const std::byte>(std::uint64_t first, std::uint64_t count)> read;
};

/// What a class of storages or a dtype of PyTorch is: "FloatStorage", "float32".
struct TorchType {
  std::optional<DType> dtype; ///< nothing for those that are not read, and for untyped bytes
  std::size_t size = 1;       ///< bytes of an element
  bool untyped = false;
  std::string name; ///< "complex64", for messages
};
/// Of "torch.FloatStorage", "torch.cuda.HalfStorage", "torch.storage.UntypedStorage",
/// "torch.bfloat16"; throws Error at `where` for what is none, and for quantised types.
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
