#pragma once
// The files of a reference: opened once for all layers, their tensors by the layers that they are
// of.

#include <mha/compare/parts.hpp>
#include <mha/files/contents.hpp>
#include <mha/layer/layer.hpp>
#include <mha/load/source.hpp>

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace mha {

/// One file of a reference, its tensors by the layers that their names speak of.
class ReferenceFile {
public:
  explicit ReferenceFile(io::Contents contents);
  ReferenceFile(const ReferenceFile&) = delete;
  ReferenceFile& operator=(const ReferenceFile&) = delete;

  using Entries = std::vector<const io::Entry*>;
  const io::Contents& contents() const { return contents_; }
  /// hidden_states and attentions, read once.
  const io::Contents& stacks() const { return stacks_; }
  const std::map<std::size_t, Entries>& layers() const { return layers_; }
  const Entries& without_layer() const { return without_layer_; }

private:
  io::Contents contents_, stacks_;
  std::map<std::size_t, Entries> layers_;
  Entries without_layer_;
};

/// Whether a reference, as typed, is the textbook (a file of that name is ./textbook).
inline bool is_textbook(std::string_view source) {
  return source == "textbook";
}

/// The files of a reference, each opened once for all layers.
class ReferenceFiles {
public:
  /// SOURCES as read_reference takes them, or the textbook alone. Throws Error where there is none.
  explicit ReferenceFiles(std::vector<std::string> sources);
  /// The same with a program's own tensors, which messages call by the name of `memory`.
  ReferenceFiles(std::vector<std::string> sources, io::Contents memory);

  const std::vector<std::string>& texts() const { return sources_; }
  /// Whether it is the textbook, which is no file.
  bool is_textbook() const { return mha::is_textbook(sources_.front()); }
  std::shared_ptr<const ReferenceFile> open(const std::string& path) const;
  /// What open() takes for a source that is a file, or names the states in one
  /// (`hidden_states=FILE`); nothing for other bindings.
  std::optional<std::string> file_of(const io::Source& source) const;
  /// Whether some tensor, or binding, has a stage's own name in its; `layers` are those that files
  /// of a layer each are of.
  bool names(Stage stage, const std::vector<std::string>& layers) const;
  /// From now on, of the file at `path` the rows of one text alone are read.
  void keep_text(const std::string& path, const TextPlace& place, std::size_t T) const;
  /// The same of several texts of a batch, each from a row of its own on.
  void keep_texts(const std::string& path, const std::vector<std::size_t>& firsts, std::size_t rows,
                  std::size_t T) const;

private:
  std::vector<std::string> sources_;
  mutable std::map<std::string, std::shared_ptr<const ReferenceFile>> files_;
};

/// Whether a tensor without a known name has the shape of a step around attention.
bool looks_like_step(const Dims& dims, const io::Entry& entry);

/// The first columns of an entry that has more; else the entry itself.
io::Entry first_columns(const io::Entry& entry, std::size_t width);

/// Whether two tensors hold the same numbers.
bool same_numbers(const Tensor& a, const Tensor& b);

/// Columns of an entry that are a stage.
struct StageColumns {
  Stage stage = Stage::q;
  io::Entry entry;
};
/// How wide some stages are side by side.
std::size_t width_side_by_side(const Layer& layer, const std::vector<Stage>& stages);
/// The stages whose columns lie side by side in an entry, or `by_group` within the columns of each
/// key/value head; empty where it is not as wide as they are.
std::vector<StageColumns> stages_side_by_side(const Layer& layer, const std::vector<Stage>& stages,
                                              const io::Entry& entry, bool by_group);

} // namespace mha
