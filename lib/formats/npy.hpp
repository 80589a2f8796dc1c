#pragma once
// NumPy's formats: NPY, the file of one array, and NPZ, an archive of such files.

#include <mha/files/contents.hpp>
#include <mha/formats/flat.hpp>

#include <functional>
#include <string>
#include <string_view>

namespace mha::io {

/// The names of an array for messages and for binding it on the command line.
struct NpyPlace {
  std::string path;          ///< "hidden.npz"
  std::string where;         ///< "hidden.npz: layers.0", fit for messages
  std::string binding;       ///< "layers.0=hidden.npz:layers.0", what ":bf16" is appended to
  bool void_is_bf16 = false; ///< the binding ends with ":bf16"
};

/// A checked header.
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

/// The checked header of an array of `size` bytes without the header's own bytes: offset is 0.
NpyHeader npy_header(const NpyPlace& place, const NpyLiteral& literal, std::uint64_t size);
/// The length of the header in bytes, from its first 12 bytes; throws Error if they do not begin an
/// NPY file.
std::size_t npy_header_size(const NpyPlace& place, std::string_view first, std::uint64_t size);
/// Parses the header at the start of `first`, which is the beginning of `size` bytes that must end
/// with the last element.
NpyHeader parse_npy(const NpyPlace& place, std::string_view first, std::uint64_t size);

/// Returns the bytes of the elements in the file's order.
using Load = std::function<std::shared_ptr<const std::byte>()>;
/// Adds the array to the contents as a tensor, or reads it and adds a scalar or a list of texts.
void add_npy(Contents& contents, const NpyPlace& place, std::string name, const NpyHeader& header,
             Load load);

/// A lone .npy file; its stem is the tensor's name.
Contents read_npy(const Bytes& bytes, bool void_is_bf16);

/// Reads the directory and the header of every array; numbers are read on demand.
Contents read_npz(const Bytes& bytes, bool void_is_bf16);
std::unique_ptr<Writer> create_npz(const std::string& path, const Output& output);

std::unique_ptr<Writer> create_npy(const std::string& path, const Output& output);
Layout npy_layout(const std::string& path, const Output& output);

/// The header of an item, a multiple of 64 bytes; throws Error for bfloat16, which NPY does not
/// have.
std::string npy_header(const std::string& path, const Item& item);
/// A whole .npy file for a setting or a list of texts.
std::string npy_of_scalar(const std::string& text);
std::string npy_of_labels(const std::vector<std::string>& texts, const Shape& shape);

/// Settings and labels in order, as (name, whole .npy file).
std::vector<std::pair<std::string, std::string>> npy_extras(const Output& output);

} // namespace mha::io
