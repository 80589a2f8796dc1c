#pragma once
// Takes a whole model's tensors as its description names them.

#include <mha/layer/layer.hpp>
#include <mha/load/described_file.hpp>

namespace mha {

/// What messages end with where the family or its names are what is not known.
inline const Message or_describe_it = message(
    "give a layer's input instead of a text, <X=FILE>, or describe the model by <naming> FILE.json"
    "<draft naming>");

/// Reads what stands around one layer, and the model's ends. Throws Error for what is missing or
/// does not fit.
class ModelReader {
public:
  /// Throws Error where the layer is not in its place in a whole model.
  ModelReader(const naming::Group& group, const naming::Description& description);

  /// Where the description's names are in the file.
  const DescribedFile& file() const { return file_; }

  /// Rows of tokens, positions or types by the tensor's key; none where there is no such table.
  Tensor table(const char* key) const;
  /// Weight and bias of a product that takes `in` numbers and gives `out` (0: any), by its key.
  LinearMap linear(const char* key, std::size_t in, std::size_t out = 0) const;
  /// A norm of `width` numbers by its key; none where nothing is said of it.
  Norm norm(const char* key, std::size_t width) const;
  /// What a norm is, without weight and bias.
  Norm form(const naming::DescribedNorm& norm) const;
  /// The activation that is said, or the usual one of its place.
  Activation activation(const naming::DescribedValue& described) const;
  FeedForward feed_forward(std::size_t width) const;
  /// What stands around the layer's attention.
  TransformerBlock block(std::size_t width) const;
  /// Throws Error where the layer lacks what the description says that every one has.
  void require_always() const;
  /// The bias that is added to the logits, or nullptr: a decoder's own comes before one of another
  /// name, unless the decoder is the embedding.
  const io::Entry* head_bias(bool tied) const;

private:
  void check_linear(const naming::DescribedTensor& tensor, const DescribedFile::Map& map,
                    std::size_t in, std::size_t out) const;
  void check_described(const naming::DescribedTensor& tensor, const DescribedFile::Map& map,
                       std::size_t in, std::size_t out) const;
  void read_factors(std::size_t width, FeedForward& mlp) const;
  void refuse_experts() const;

  const naming::Group& group_;
  const naming::Description& description_;
  DescribedFile file_;
};

} // namespace mha
