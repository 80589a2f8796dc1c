#pragma once
// PyTorch's files: the ZIP archive of torch.save since 1.6, what it wrote before, TorchScript's
// archive; and plain pickles, of NumPy's arrays. Only read, and no code in them is run.

#include <mha/files/contents.hpp>

#include <span>

namespace mha::io {

/// Whether a file begins as one of them: a pickle, or an archive, which may also be another's.
bool begins_as_torch(std::span<const std::byte> first);
/// Whether a ZIP archive holds a NAME/data.pkl; throws Error for a broken one.
bool is_torch_archive(const Bytes& bytes);
/// Whether a file named .pkl holds a pickle of protocol 0 or 1, which begins without a mark.
bool may_be_old_pickle(const Bytes& bytes);

Contents read_torch(const Bytes& bytes);

} // namespace mha::io
