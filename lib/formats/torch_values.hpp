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
  /// The sizes of texts as Latin-1 by their addresses, or nothing for other texts. A cache of
  /// add_values().
  mutable std::unordered_map<const char*, std::optional<std::size_t>> latin1_sizes = {};
};

/// Returns the storage of a key, type and number of elements. Throws Error at `where` if it does
/// not exist or has another size.
using FindStorage = std::function<std::shared_ptr<const TorchStorage>(
    const std::string& where, const std::string& key, const TorchType& type, std::uint64_t count)>;

/// The parts of a storage's persistent id.
struct StoredId {
  std::string key;
  TorchType type;
  std::uint64_t count = 0;  ///< of its numbers
  std::uint64_t offset = 0; ///< the start of a view, in numbers
  std::optional<std::uint64_t> view_count;
};
/// Reads the id of a value of kind `stored`. Throws Error at `where`.
StoredId stored_id(const Pickle& pickle, Pickle::Ref at, const std::string& where);

/// Adds everything in the pickle under the names of its state dictionary (pickle_walk.hpp).
void add_values(Contents& contents, const std::shared_ptr<const PickleFile>& file,
                const FindStorage& find);

/// Adds the result of NumPy's _reconstruct, _frombuffer or scalar: an array, a list of texts, or a
/// number, which is a setting. Throws Error if its state is inconsistent.
void add_pickled_array(Contents& contents, const std::shared_ptr<const PickleFile>& file,
                       std::string name, Pickle::Ref value);

/// Whether the first pickle of a file is the number that such files begin with.
bool is_legacy_mark(const Pickle& pickle);
/// Reads a file of torch.save before 1.6, whose first pickle ends before byte `start`: more
/// pickles, then the storages.
Contents read_legacy_torch(const Bytes& bytes, std::size_t start);

} // namespace mha::io
