#pragma once
// The layers of a family with the names that the file gives their tensors, which may be others than
// those that they are read by. Inside of as_naming.cpp.

#include <mha/load/families/description.hpp>
#include <mha/load/families/family.hpp>

#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace mha {

/// Throws Error "FILE: a description cannot say WHAT".
[[noreturn]] void refuse_undescribable(const naming::Group& group, std::string_view what);

class NamedLayers {
protected:
  /// One layer as its family reads it.
  struct ReadAs {
    naming::Group group;
    std::string block, block_in_file; ///< "model.layers.3.", as read and in the file's own names
    std::optional<naming::LayerReading> read;
  };

  /// `block`: what stands before the names of the layer's tensors, as it is read.
  void add_layer(const naming::Found& found, std::string block);
  /// What stands before a layer's names, with {layer}; or of each layer.
  std::vector<std::string> layers_pattern() const;
  /// The name in the first layer below its block, claimed in every layer. Throws Error where it
  /// does not stand there.
  std::string below_block(const io::Entry& entry) { return below_block(entry, layers_[0]); }
  /// The same of another layer that has it.
  std::string below_block(const io::Entry& entry, const ReadAs& layer);
  /// The first layer whose input is normalised by a tensor; else the first.
  const ReadAs& layer_with_norm() const;
  void claim(const io::Entry& entry);
  /// What a description calls a tensor: the file's own name, where the family presents layers that
  /// share their weights under others.
  const std::string& name_in_file(const io::Entry& entry) const {
    return family_->present ? entry.name_in_file() : entry.name;
  }
  /// By this name, or nullptr.
  const io::Entry* in_file(std::string_view own) const;
  /// What the family knows and does not read, with {layer} for a layer's number.
  std::vector<std::string> unclaimed() const;

  const naming::FamilyRow* family_ = nullptr;
  std::deque<ReadAs> layers_; // translations hold on to their groups

private:
  std::string own_prefix(const naming::Group& group) const;

  naming::Options options_;
  std::set<std::string> claimed_;
};

class NamedAttention : protected NamedLayers {
protected:
  /// By the keys of `tensors`, norms left out. Throws Error for a tensor that no description says.
  std::map<std::string, naming::DescribedTensor> attention();
  /// How a bias is found where it is not the one beside the weight: its name, "" for none; nothing
  /// where it is beside it. `of`: the layer that it is of; null: one of the model's ends.
  std::optional<std::string> named_bias(const io::Entry& weight, const io::Entry* bias,
                                        const ReadAs* of);

private:
  const io::Entry* entry_of(const NamedTensor& part) const;
  naming::DescribedTensor tensor_of(const std::string& key, const NamedTensor& part);
  /// A tensor of one layer that every layer reads (T5's distances) has that layer's name.
  std::string name_of_part(const std::string& key, const io::Entry& entry);
  /// Tensors of single heads that are under each other, "norms.{head}.weight"; nothing: it is one.
  std::optional<naming::DescribedTensor> tensor_of_heads(const io::Entry& first,
                                                         const NamedTensor& part);
  /// Several projections that are parts of one tensor, under the key of them together; whether they
  /// are.
  bool add_fused(std::map<std::string, naming::DescribedTensor>& to,
                 const std::vector<std::string>& letters);
};

} // namespace mha
