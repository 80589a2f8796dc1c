#pragma once
// NumPy's formats: NPY, the file of one array, and NPZ, an archive of such files.

#include <mha/files/contents.hpp>
#include <mha/formats/flat.hpp>

#include <functional>
#include <string>
#include <string_view>

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

/// The Python literal in an NPY header: {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }
struct NpyLiteral {
  std::string descr;
  bool structured = false; ///< descr is a list of fields
  bool fortran = false;
  Shape shape;
};

/// Parses the dictionary, whatever the order of its keys and its spacing; throws Error
/// "WHERE: NPY header: …" for anything else.
NpyLiteral parse_npy_literal(const std::string& where, std::string_view text);

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

/// Reads the directory and the header of every array; the numbers when they are asked for.
Contents read_npz(const Bytes& bytes, bool void_is_bf16);
std::unique_ptr<Writer> create_npz(const std::string& path, const Output& output);

std::unique_ptr<Writer> create_npy(const std::string& path, const Output& output);
Layout npy_layout(const std::string& path, const Output& output);

/// The header of an item, a multiple of 64 bytes; throws Error for bfloat16, which NPY has not.
std::string npy_header(const std::string& path, const Item& item);
/// A whole .npy of a setting or of a list of text.
std::string npy_of_scalar(const std::string& text);
std::string npy_of_labels(const std::vector<std::string>& texts, const Shape& shape);

/// Settings and labels as (name, whole .npy), in their order.
std::vector<std::pair<std::string, std::string>> npy_extras(const Output& output);

} // namespace mha::io
