#pragma once
// Which tensors of the files may belong to which layer. Found once, so that a file of n layers
// costs n steps, not n².

#include <mha/load/families/family.hpp>

#include <cstddef>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace mha {

class LayerIndex {
public:
  /// `contents` and `found` must neither move nor change; `ids` are those of the layers that will
  /// be asked for.
  LayerIndex(const std::vector<io::Contents>& contents, const std::vector<naming::Found>& found,
             const std::vector<std::string>& ids);

  /// The layers of families with this id, in their order.
  const std::vector<const naming::Found*>& found_as(const std::string& id) const;
  /// Whether this file has layers of a family.
  bool is_checkpoint(const io::Contents& file) const { return checkpoints_.contains(&file); }
  /// Whether a tensor is part of a family's layer.
  bool of_family(const io::Entry& entry) const { return of_family_.contains(&entry); }
  /// The tensors of a file that may be layer `id`'s, in the file's order: those that its number or
  /// id names, and those that no number names.
  std::vector<const io::Entry*> tensors(const io::Contents& file, const std::string& id) const;

  /// Tensors in the modules of a family's layer that the family does not read, "q_proj.lora_A",
  /// "q_proj.weight_scale": their names after the layer's prefix.
  std::vector<std::string> unread(const naming::Found& layer) const;
  /// Other tensors in the module of a family's layer that no family knows, "rel_pos_h",
  /// "query_conv.weight": their whole names. None where the module is more than attention.
  std::vector<std::string> unknown(const naming::Found& layer) const;
  /// The names of the layer's block (known_models.hpp), sorted.
  std::vector<std::string_view> names_of_block(const naming::Found& layer) const;

  /// Keeps only the first of `unknown_tensors`, which belong to no layer, among the candidates of
  /// every layer: thousands of them for each of thousands of layers would take minutes. In the
  /// file's order.
  void keep_first_unknown(const io::Contents& file,
                          const std::vector<const io::Entry*>& unknown_tensors) const;

  /// The canonical name of a tensor; looked up once for all layers that are read.
  const std::string& canonical(const io::Entry& entry) const;

private:
  /// Positions in the file, ascending.
  using Places = std::vector<std::size_t>;
  struct File {
    Places shared;                     ///< of every layer
    std::map<std::string, Places> own; ///< by the layer's id or number
  };
  static File places_in(const io::Contents& file, bool checkpoint,
                        const std::set<std::string, std::less<>>& ids);

  mutable std::map<const io::Contents*, File> files_;
  std::map<std::string, std::vector<const naming::Found*>> found_;
  std::set<const io::Contents*> checkpoints_;
  std::set<const io::Entry*> of_family_;
  const std::vector<std::string_view>& sorted_names(const io::Contents& file) const;

  mutable std::map<const io::Entry*, std::string> canonical_;
  mutable std::map<const io::Contents*, std::vector<std::string_view>> sorted_; ///< names
};

} // namespace mha
