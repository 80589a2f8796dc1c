#pragma once
// One SOURCE of the command line: a file, or `NAME=FILE[:TENSOR][@AXES]`, or
// `NAME=FILE:DTYPE[SHAPE]@AXES`.

#include <mha/files/contents.hpp>

#include <optional>
#include <string>

namespace mha::io {

/// One parsed SOURCE. `name` is empty for a plain file.
struct Source {
  std::string text;   ///< as typed
  std::string name;   ///< "X" of X=hidden.npz:layers.0
  std::string path;   ///< file, folder or "-"
  std::string tensor; ///< "layers.0", or ""
  std::optional<DType>
      raw_dtype; ///< of FILE:DTYPE[SHAPE], or of FILE:bf16 on an .npy of 2-byte void
  std::optional<Shape> raw_shape; ///< of FILE:DTYPE[SHAPE]
  std::string axes;               ///< "BTHD", or ""
  Tensor memory; ///< a program's tensor instead of a file; `path` is its name in messages
};

/// Parses a SOURCE. A name has no slash, and the part before '=' must look like a name
/// ([A-Za-z_][A-Za-z0-9_.]*), so `runs/lr=1e-4/layer.npz` is a file; an existing file of the whole
/// text is always a file. ':' belongs to the path where a file of that name exists.
/// Every letter of AXES is one of LBHTSDCIO, none twice; throws Error otherwise.
Source parse_source(const std::string& text);

/// `{layer}` in path and tensor replaced by `layer`.
Source with_layer(const Source& source, std::string_view layer);
/// Whether the source mentions `{layer}`.
bool mentions_layer(const Source& source);

/// The file that was opened last.
class LastOpened {
public:
  bool gguf_order = false; ///< see OpenOptions
  /// `bfloat16`: 2-byte void elements of NumPy files are taken as bfloat16.
  const Contents& open(const std::string& path, bool bfloat16);

private:
  std::optional<Contents> contents_;
  std::string path_;
  bool bfloat16_ = false;
};

/// The tensor that a binding means: the named one, the only one of the file, or the one with the
/// binding's name; otherwise throws Error with the file's tensors and "did you mean".
Entry bound_entry(const Source& source);
/// The same for many bindings one after the other: consecutive ones open a common file once.
Entry bound_entry(const Source& source, LastOpened& opened);

/// Labels: one list for all batch items, or one for each.
struct LabelLists {
  std::vector<std::string> one;
  std::vector<std::vector<std::string>> items;
};
/// The labels of a binding (`tokens=tokens.json`): a list of texts or numbers, or the lines of a
/// text file; a list of lists, or an array of two axes, has one list for each batch item.
LabelLists read_label_lists(const Source& source);
/// The only list; throws Error where there is one for each batch item.
std::vector<std::string> read_labels(const Source& source);
/// An array of token numbers as labels: of one axis, or of two, one row a batch item.
LabelLists labels_of_numbers(const Tensor& numbers);

} // namespace mha::io
