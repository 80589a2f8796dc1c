#pragma once
// Files of torch.save before 1.6: pickles one after the other, then the storages.

#include <mha/files/contents.hpp>
#include <mha/formats/pickle.hpp>

namespace mha::io {

/// Whether the first pickle of a file is the number that such files begin with.
bool is_legacy_mark(const Pickle& pickle);
/// Reads the file whose first pickle ends before byte `start`.
Contents read_legacy_torch(const Bytes& bytes, std::size_t start);

} // namespace mha::io
