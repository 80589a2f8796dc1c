#pragma once
// The list of file formats, and how files are opened and created. A format is one file in this
// folder and one line in formats.cpp.

#include <mha/files/contents.hpp>
#include <mha/formats/flat.hpp>

#include <span>

namespace mha::io {

struct Format {
  std::string_view name;       ///< "npz"
  std::string_view extensions; ///< ".npz"; several are separated by commas
  std::string_view title;      ///< "NumPy archive", for help and docs
  /// Whether a file with these first bytes (up to 64) is of this format.
  bool (*recognises)(std::span<const std::byte> first);
  /// Checks the whole structure (sizes, header, dtypes) before memory is allocated for it.
  Contents (*read)(const Bytes& bytes);
  /// Creates a writer; nullptr if the format is read-only.
  std::unique_ptr<Writer> (*create)(const std::string& path, const Output& output);
  /// The offsets of all parts, for formats that several processes can write together; or nullptr.
  Layout (*layout)(const std::string& path, const Output& output) = nullptr;
};

/// How a file is opened.
struct OpenOptions {
  bool void_is_bf16 = false; ///< 2-byte void elements of NumPy files are bfloat16
  bool gguf_order = false;   ///< rows of GGUF's queries and keys keep the file's order
  bool token_lines = false;  ///< lines of a text file are texts of token numbers, of any lengths
};

/// Whether an extension (".npz", in lower case) belongs to the format.
bool has_extension(const Format& format, std::string_view extension);

/// All formats, in the order in which they are tried.
std::span<const Format> formats();
/// The format called `name`; throws Error with "did you mean" and the choices.
const Format& format_named(std::string_view name);

/// The format in which create() writes: `format` by name, or "" to take it from the path.
const Format& format_to_write(const std::string& path, std::string_view format,
                              const Output& output);

/// A writer for `path`: `format` by name, or "" to use the extension (a path without one, or ending
/// in '/', is a folder of .npy). "-" is standard output. Several items in format "npy" make a
/// folder; one item and a path ending in ".npy" make a file.
std::unique_ptr<Writer> create(const std::string& path, std::string_view format,
                               const Output& output);

/// Opens a file, a folder of .npy files, a checkpoint folder (config.json with model.safetensors,
/// pytorch_model.bin or their shards) or "-". The format is chosen by the extension, or by the
/// first bytes if the extension is unknown. Throws Error for .h5, object arrays, and a .bin that is
/// not a checkpoint and has no dtype and shape; the message has the line of Python that converts
/// it.
Contents open(const std::string& path, const OpenOptions& options = {});

/// Raw bytes as kernels write them, FILE:DTYPE[SHAPE]: a whole file as one tensor, numbers in the
/// order of `shape` (last axis fastest), little-endian. Throws Error unless the file has exactly
/// the bytes of `shape` and `dtype`.
Entry read_raw(const std::string& path, std::string name, DType dtype, const Shape& shape);

} // namespace mha::io
