#pragma once
// Takes a whole model's tensors by the names of its record (families/model.hpp).

#include <mha/layer/layer.hpp>
#include <mha/load/families/family.hpp>

#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

namespace mha {

/// What messages about a model's tensors end with.
inline const Message give_X_instead = message("give a layer's input instead of a text: <X=FILE>");

/// The same where the family or its names are what is not known.
inline const Message or_describe_it = message(
    "give a layer's input instead of a text, <X=FILE>, or describe the model by <naming> FILE.json"
    "<draft naming>");

/// "transformer.h.0." of "transformer.h.0.attn." and the record's "h"; "" if it does not stand
/// there.
std::string block_prefix(const naming::Group& group, std::string_view layers);

/// Reads what stands around one layer, and the model's ends. Throws Error for what is missing or
/// does not fit.
class ModelReader {
public:
  ModelReader(const naming::Group& group, const naming::ModelRecord& record);

  /// "transformer.h.0." and "transformer.".
  const std::string& prefix() const { return block_; }
  const std::string& model() const { return model_; }

  const io::Entry* find(const std::string& name) const { return group_.elsewhere(name); }

  using Endings = std::initializer_list<std::string_view>;
  /// The tensors that a name of the record stands for, weight and bias; nullptr where one is not
  /// there, or not taken.
  using Entries = std::pair<const io::Entry*, const io::Entry*>;
  Entries linear_entries(const std::string& name, naming::Bias biased) const;
  Entries norm_entries(const std::string& name) const;
  const io::Entry* table_entry(std::string_view name) const;
  /// The whole name of a table: below the model, or where models share it.
  std::string table_name(std::string_view name) const;

  /// A tensor under one of its endings; throws Error if it has to be there.
  Tensor take(const std::string& name, Endings endings, std::size_t rank, bool needed) const;
  /// A matrix below the model: a token's or a position's vectors are its rows.
  Tensor table(std::string_view name, bool needed) const;
  /// Weight and bias of a product that takes `in` numbers and gives `out` (0: any).
  LinearMap linear(const std::string& name, std::size_t in, std::size_t out = 0) const {
    return linear(name, in, out, !record_.in_out, record_.mlp_bias);
  }
  LinearMap linear(const std::string& name, std::size_t in, std::size_t out, bool out_in,
                   naming::Bias bias) const;
  Norm norm(const std::string& name, std::size_t width) const;
  /// What the record's norms are, without weight and bias.
  Norm form() const;
  Norm norm_in_block(std::string_view name, std::size_t width) const {
    return name.empty() ? Norm{} : norm(block_ + std::string(name), width);
  }
  Activation activation(std::string_view fixed = {}) const;
  FeedForward feed_forward(std::size_t width) const;
  /// What stands around the layer's attention.
  TransformerBlock block(std::size_t width) const;
  /// The width of the stream, as the embedding's shapes say; nothing where there is none.
  std::optional<std::size_t> stream_width() const;
  /// Throws Error where the layer lacks what the record says that every one has.
  void require_always() const;
  /// The head's name, below a part of the model's prefix or at the top; "" if no tensor is called
  /// so with one of the endings.
  std::string head_name(std::string_view name, Endings endings) const;
  std::string head_name(std::string_view name) const {
    return head_name(name, {".weight", ".gamma", ""});
  }
  /// The whole name of the bias that is added to the logits, or "": a decoder's own comes before
  /// the record's head_bias, unless the decoder is the embedding.
  std::string head_bias(bool tied) const;

  /// Whether ".weight" stands behind the name; TransformerLens' W_in is the whole of it.
  static bool has_endings(const std::string& name) {
    return name.rfind("W_") == std::string::npos || name.rfind("W_") < name.rfind('.');
  }

private:
  const io::Entry* first_of(const std::string& name, Endings endings) const;
  static std::string bias_of(std::string name);
  double epsilon() const;
  void refuse_experts() const;

  const naming::Group& group_;
  const naming::ModelRecord& record_;
  std::string block_, model_;
};

} // namespace mha
