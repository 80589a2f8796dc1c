#pragma once
// From the values of a pickle to a file's contents: tensors of PyTorch, arrays of NumPy. Private to
// the files that read PyTorch's formats.

#include <mha/files/contents.hpp>
#include <mha/formats/pickle.hpp>
#include <mha/formats/torch_tensor.hpp>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

namespace mha::io {

/// A pickle with the memory that it refers to.
struct PickleFile {
  std::shared_ptr<const std::byte> memory;
  Pickle pickle;
  /// How many bytes a text in Latin-1 has, by its place; nothing where it is none. Of add_values().
  mutable std::unordered_map<const char*, std::optional<std::size_t>> latin1_sizes = {};
};

/// A storage by its key, which says what it is and how many numbers it has. Throws Error at `where`
/// if it is not there, or is of another size.
using FindStorage = std::function<std::shared_ptr<const TorchStorage>(
    const std::string& where, const std::string& key, const TorchType& type, std::uint64_t count)>;

/// What a persistent id says of a storage.
struct StoredId {
  std::string key;
  TorchType type;
  std::uint64_t count = 0;  ///< of its numbers
  std::uint64_t offset = 0; ///< where a view of it begins, in numbers
  std::optional<std::uint64_t> view_count;
};
/// Reads the id of a value of kind `stored`. Throws Error at `where`.
StoredId stored_id(const Pickle& pickle, Pickle::Ref at, const std::string& where);

/// Everything that the pickle holds, under the names of its state dictionary (state_dict.hpp).
void add_values(Contents& contents, const std::shared_ptr<const PickleFile>& file,
                const FindStorage& find);

/// Adds what numpy's _reconstruct, _frombuffer or scalar would make: an array, a list of text, or a
/// number, which is a setting. Throws Error where its state does not fit together.
void add_pickled_array(Contents& contents, const std::shared_ptr<const PickleFile>& file,
                       std::string name, Pickle::Ref value);

/// Whether the first pickle of a file is the number that such files begin with.
bool is_legacy_mark(const Pickle& pickle);
/// Reads the file whose first pickle ends before byte `start`.
Contents read_legacy_torch(const Bytes& bytes, std::size_t start);

} // namespace mha::io
