#pragma once
// The NPY format: the header of one array, whether a file of its own or a member of an NPZ.

#include <mha/files/contents.hpp>
#include <mha/formats/npy_literal.hpp>

#include <functional>

namespace mha::io {

/// What to call an array in messages, and how to bind it on the command line.
struct NpyPlace {
  std::string path;          ///< "hidden.npz"
  std::string where;         ///< "hidden.npz: layers.0", fit for messages
  std::string binding;       ///< "layers.0=hidden.npz:layers.0", what ":bf16" is appended to
  bool void_is_bf16 = false; ///< the binding said so
};

/// A header, checked.
struct NpyHeader {
  DType dtype = DType::f32; ///< of numbers; unused for text
  Shape shape;
  bool swapped = false;       ///< the other byte order
  bool fortran = false;       ///< the first axis is contiguous
  std::size_t text_width = 0; ///< characters of each text, 0 for numbers
  bool wide_text = false;     ///< 4-byte characters (U) instead of bytes (S)
  bool is_text = false;
  std::size_t offset = 0;  ///< where the elements start
  std::uint64_t bytes = 0; ///< of all elements
};

/// What an array of `size` bytes is, checked; its elements start at 0.
NpyHeader npy_header(const NpyPlace& place, const NpyLiteral& literal, std::uint64_t size);
/// The length of the header in bytes, from its first 12; throws Error where these begin no NPY
/// file.
std::size_t npy_header_size(const NpyPlace& place, std::string_view first, std::uint64_t size);
/// Parses the header at the start of `first`, which is the beginning of `size` bytes that must end
/// with the last element.
NpyHeader parse_npy(const NpyPlace& place, std::string_view first, std::uint64_t size);

/// The elements' bytes, as they lie in the file.
using Load = std::function<std::shared_ptr<const std::byte>()>;
/// Adds the array to the contents: a tensor; or, read at once, a scalar or a list of text.
void add_npy(Contents& contents, const NpyPlace& place, std::string name, const NpyHeader& header,
             Load load);

/// A lone .npy file; its stem is the tensor's name.
Contents read_npy(const Bytes& bytes, bool void_is_bf16);

} // namespace mha::io
