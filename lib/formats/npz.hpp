#pragma once
// NumPy archives: a ZIP of .npy members.

#include <mha/files/contents.hpp>
#include <mha/files/writer.hpp>

namespace mha::io {

/// Reads the directory and the header of every array; the numbers when they are asked for.
Contents read_npz(const Bytes& bytes, bool void_is_bf16);
std::unique_ptr<Writer> create_npz(const std::string& path, const Output& output);

} // namespace mha::io
