#pragma once
// Reads a whole model's tensors by its description.

#include <mha/layer/layer.hpp>
#include <mha/load/described_file.hpp>

namespace mha {

/// The end of messages about unknown families or names.
inline const Message or_describe_it = message(
    "give a layer's input instead of a text, <X=FILE>, or describe the model by <naming> FILE.json"
    "<draft naming>");

/// Reads the block around one layer's attention, and the model's ends. Throws Error for what is
/// missing or does not fit.
class ModelReader {
public:
  /// Throws Error where the layer is not below the prefix of a whole model's layers.
  ModelReader(const naming::Group& group, const naming::Description& description);

  /// The file by the description's names.
  const DescribedFile& file() const { return file_; }

  /// Rows of tokens, positions or types by the tensor's key; none where there is no such table.
  Tensor table(const char* key) const;
  /// Weight and bias of a product that takes `in` numbers and gives `out` (0: any), by its key.
  LinearMap linear(const char* key, std::size_t in, std::size_t out = 0) const;
  /// A norm of `width` numbers by its key; none where it is not described.
  Norm norm(const char* key, std::size_t width) const;
  /// A norm without weight and bias.
  Norm form(const naming::DescribedNorm& norm) const;
  /// The described activation; by default GELU.
  Activation activation(const naming::DescribedValue& described) const;
  FeedForward feed_forward(std::size_t width) const;
  /// The mixture in the feed-forward's place; null: the layer has none.
  std::shared_ptr<const Mixture> mixture(std::size_t width) const;
  /// The block around the layer's attention.
  TransformerBlock block(std::size_t width) const;
  /// Throws Error where the layer lacks what every layer has by the description.
  void require_always() const;
  /// The bias that is added to the logits, or nullptr: the decoder's own, else, or if the decoder
  /// is the embedding, one of another name.
  const io::Entry* head_bias(bool tied) const;

private:
  void check_linear(const naming::DescribedTensor& tensor, const DescribedFile::Map& map,
                    std::size_t in, std::size_t out) const;
  void check_described(const naming::DescribedTensor& tensor, const DescribedFile::Map& map,
                       std::size_t in, std::size_t out) const;
  void read_factors(std::size_t width, FeedForward& mlp) const;
  const naming::DescribedTensor* present(const char* key) const;
  std::vector<LinearMap> experts(const char* key, std::size_t in, std::size_t out = 0) const;
  std::vector<LinearMap> one_by_one(const naming::DescribedTensor& tensor) const;
  std::vector<LinearMap> stacked(const naming::DescribedTensor& tensor) const;
  std::vector<LinearMap> in_blocks(const naming::DescribedTensor& tensor) const;
  const io::Entry* beside(const naming::DescribedTensor& tensor, std::string_view ending) const;
  void read_first_maps(std::size_t width, Mixture& mixture) const;
  void require_no_factor(const char* key, const char* whose) const;
  void require_as_beside(const naming::DescribedTensor& tensor) const;
  Tensor one_each(const char* key, std::size_t experts) const;
  void refuse_experts() const;
  /// The limits of a dense feed-forward.
  Clamp clamp() const;
  /// What the layer adds of the tokens' embedding for it; absent where it has none.
  Supplement supplement(std::size_t width) const;
  /// What multiplies the stream after the block; 1 where nothing does.
  double stream_scale() const;

  const naming::Group& group_;
  const naming::Description& description_;
  DescribedFile file_;
};

} // namespace mha
