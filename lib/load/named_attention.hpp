#pragma once
// The tensors of a layer's attention as a description says them: names, layouts, what is side by
// side. Inside of as_naming.cpp.

#include <mha/load/families/description.hpp>
#include <mha/load/named_layers.hpp>

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace mha {

class NamedAttention : protected NamedLayers {
protected:
  using Said = naming::DescribedTensor;

  /// By the keys of `tensors`, norms left out. Throws Error for a tensor that no description says.
  std::map<std::string, Said> attention();
  /// How a bias is found where it is not the one beside the weight: its name, "" for none; nothing
  /// where it is beside it. `of`: the layer that it is of; null: one of the model's ends.
  std::optional<std::string> bias_said(const io::Entry& weight, const io::Entry* bias,
                                       const ReadAs* of);

private:
  const io::Entry* entry_of(const NamedTensor& part) const;
  Said tensor_of(const std::string& key, const NamedTensor& part);
  /// A tensor of one layer that every layer reads (T5's distances) has that layer's name.
  std::string name_of_part(const std::string& key, const io::Entry& entry);
  /// Tensors of single heads that are under each other, "norms.{head}.weight"; nothing: it is one.
  std::optional<Said> tensor_of_heads(const io::Entry& first, const NamedTensor& part);
  /// Several projections that are parts of one tensor, under the key of them together; whether they
  /// are.
  bool add_fused(std::map<std::string, Said>& to, const std::vector<std::string>& letters);
};

} // namespace mha
