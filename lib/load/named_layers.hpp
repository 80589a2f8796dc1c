#pragma once
// A family's layers and their attention under the file's own names, which may differ from those
// that the family reads. Only as_naming.cpp uses them.

#include <mha/load/families/description.hpp>
#include <mha/load/families/family.hpp>

#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace mha {

/// Throws Error "FILE: a description cannot express WHAT".
[[noreturn]] void refuse_undescribable(const naming::Group& group, std::string_view what);

class NamedLayers {
protected:
  /// One layer, read by its family.
  struct ReadAs {
    naming::Group group;
    std::string block,
        block_in_file; ///< "model.layers.3.", in the family's and in the file's names
    std::optional<naming::LayerReading> read;
  };

  /// `block`: the prefix of the names of the layer's tensors, in the family's names.
  void add_layer(const naming::Found& found, std::string block);
  /// The prefix of the layers' names with {layer}, or the prefixes of all layers.
  std::vector<std::string> layers_pattern() const;
  /// The name below the first layer's block, claimed in every layer. Throws Error where it is not
  /// below it.
  std::string below_block(const io::Entry& entry) { return below_block(entry, layers_[0]); }
  /// The name below the block of another layer that has it.
  std::string below_block(const io::Entry& entry, const ReadAs& layer);
  /// The first layer whose input is normalised by a tensor; else the first.
  const ReadAs& layer_with_norm() const;
  void claim(const io::Entry& entry);
  /// A tensor's name in a description: the file's own where the family presents layers that share
  /// their weights under other names.
  const std::string& name_in_file(const io::Entry& entry) const {
    return family_->present ? entry.name_in_file() : entry.name;
  }
  /// The entry of this name, or nullptr.
  const io::Entry* in_file(std::string_view own) const;
  /// The tensors that were not claimed, with {layer} for a layer's number.
  std::vector<std::string> unclaimed() const;

  const naming::FamilyRow* family_ = nullptr;
  std::deque<ReadAs> layers_; // readings refer to their groups

private:
  std::string own_prefix(const naming::Group& group) const;

  naming::Options options_;
  std::set<std::string> claimed_;
};

class NamedAttention : protected NamedLayers {
protected:
  /// The tensors of attention by the keys of `tensors`, without norms. Throws Error for one that a
  /// description cannot express.
  std::map<std::string, naming::DescribedTensor> attention();
  /// The name of a bias that is not the one beside the weight, "" for none; nothing where it is
  /// beside it. `of` is its layer; null: it belongs to the model's ends.
  std::optional<std::string> named_bias(const io::Entry& weight, const io::Entry* bias,
                                        const ReadAs* of);

private:
  const io::Entry* entry_of(const NamedTensor& part) const;
  naming::DescribedTensor tensor_of(const std::string& key, const NamedTensor& part);
  /// A tensor of one layer that every layer reads (T5's distances) keeps that layer's name.
  std::string name_of_part(const std::string& key, const io::Entry& entry);
  /// A tensor that is stored for each head, "norms.{head}.weight"; nothing: it is a single one.
  std::optional<naming::DescribedTensor> tensor_of_heads(const io::Entry& first,
                                                         const NamedTensor& part);
  /// Adds projections that are parts of one tensor under their common key; false: they are not.
  bool add_fused(std::map<std::string, naming::DescribedTensor>& to,
                 const std::vector<std::string>& letters);
};

} // namespace mha
