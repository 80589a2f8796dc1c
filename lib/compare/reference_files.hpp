#pragma once
// The files of a reference, opened once for all layers, and their tensors by layer.

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

/// One file of a reference, with its tensors by the layer in their names.
class ReferenceFile {
public:
  explicit ReferenceFile(io::Contents contents);
  ReferenceFile(const ReferenceFile&) = delete;
  ReferenceFile& operator=(const ReferenceFile&) = delete;

  using Entries = std::vector<const io::Entry*>;
  const io::Contents& contents() const { return contents_; }
  /// Its hidden_states and attentions, each read once.
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
  /// SOURCES as read_reference takes them, or only the textbook. Throws Error if there is none.
  explicit ReferenceFiles(std::vector<std::string> sources);
  /// The same with a program's own tensors; messages name them by the name of `memory`.
  ReferenceFiles(std::vector<std::string> sources, io::Contents memory);

  const std::vector<std::string>& texts() const { return sources_; }
  /// Whether the reference is the textbook, which has no file.
  bool is_textbook() const { return mha::is_textbook(sources_.front()); }
  std::shared_ptr<const ReferenceFile> open(const std::string& path) const;
  /// The path to pass to open() for a source that is a file, or that binds the states in one
  /// (`hidden_states=FILE`); nothing for other bindings.
  std::optional<std::string> file_of(const io::Source& source) const;
  /// Whether the name of a tensor or binding contains a stage's own name. `layers`: the layers of
  /// sources with {layer} in their path.
  bool names(Stage stage, const std::vector<std::string>& layers) const;
  /// From now on only the rows of one text are read from the file at `path`.
  void keep_text(const std::string& path, const TextPlace& place, std::size_t T) const;
  /// The same for several texts of a batch, each with its own first row.
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

/// Whether two tensors hold the same numbers; or numbers apart by no more than a share of theirs.
bool same_numbers(const Tensor& a, const Tensor& b, double share = 0);

/// Columns of an entry that are a stage.
struct StageColumns {
  Stage stage = Stage::q;
  io::Entry entry;
};
/// The width of some stages side by side.
std::size_t width_side_by_side(const Layer& layer, const std::vector<Stage>& stages);
/// The stages whose columns are side by side in an entry, or within the columns of each of
/// `groups` groups of heads; 0: of each key/value head. Empty if the entry does not have their width.
std::vector<StageColumns> stages_side_by_side(const Layer& layer, const std::vector<Stage>& stages,
                                              const io::Entry& entry, std::size_t groups);

} // namespace mha
