#pragma once
// PyTorch's files: the ZIP archives of torch.save since 1.6 and of TorchScript, the older files of
// torch.save, and plain pickles of NumPy arrays. They are only read, and none of their code is run.

#include <mha/files/contents.hpp>

#include <span>

namespace mha::io {

/// Whether a file begins like one of them: a pickle, or an archive, which may be of another
/// program.
bool begins_as_torch(std::span<const std::byte> first);
/// Whether a ZIP archive holds a NAME/data.pkl; throws Error for a broken one.
bool is_torch_archive(const Bytes& bytes);
/// Whether a file named .pkl may hold a pickle of protocol 0 or 1, which has no mark at its start.
bool may_be_old_pickle(const Bytes& bytes);

Contents read_torch(const Bytes& bytes);

} // namespace mha::io
