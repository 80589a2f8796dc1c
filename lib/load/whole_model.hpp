#pragma once
// A checkpoint as a whole model, read by its description.

#include <mha/layer/layer.hpp>
#include <mha/load/families/description.hpp>
#include <mha/system/note.hpp>

#include <memory>
#include <string>
#include <vector>

namespace mha {

class ModelReader;

/// The layers of a model in order, and the parts before and after them. Tensors are mapped.
class WholeModel {
public:
  /// Takes the layers of the text model among those found. Throws Error for a family of lone
  /// layers, for a missing tensor, and where config.json contradicts the tensors, with the advice
  /// to give X instead.
  explicit WholeModel(const std::vector<naming::Found>& found);

  /// The file with the tensors.
  const io::Contents& file() const { return *layers_[0].group.contents; }
  /// The ids of the layers, in their order.
  const std::vector<std::string>& layers() const { return ids_; }
  /// The block around the attention of layer `number`, counted in layers().
  std::shared_ptr<const TransformerBlock> block(std::size_t number) const;
  /// The layer whose keys and values layer `number` takes, after their norms and rotation; none: it
  /// makes its own.
  std::optional<std::size_t> keys_of(std::size_t number) const { return keys_of_.at(number); }
  /// Whether a later layer takes those of layer `number`.
  bool gives_keys(std::size_t number) const;
  /// Its description for the checkpoint's config.
  const naming::Description& description() const { return *description_; }
  const Embedding& embedding() const { return embedding_; }
  const LayerEmbedding& layer_embedding() const { return layer_embedding_; }
  /// Rows that are prepended to incoming vectors, (rows, d_model); empty: none.
  const Tensor& first_rows() const { return first_rows_; }
  const Norm& last_norm() const { return last_norm_; }
  const ModelHead& head() const { return head_; }
  /// Whether it predicts the next token, not a masked one.
  bool causal() const;
  /// What the user should know about the tensors.
  const std::vector<Note>& notes() const { return notes_; }
  /// The number of the padding token, where config.json has it.
  std::optional<int> pad() const;
  /// The number of the token that ESM leaves out. Throws Error without one.
  std::optional<int> mask_token() const;
  /// Throws Error where config.json contradicts a layer's heads.
  void check_layer(const Layer& layer) const;
  /// The number of positions that the model was trained for by config.json, where no table bounds
  /// the text.
  std::optional<std::size_t> trained_positions() const;
  std::size_t width() const { return embedding_.width(); }
  std::size_t vocabulary() const { return embedding_.tokens.shape()[0]; }

private:
  void find_shared_keys();
  void require_alike() const;
  void require_biases_alike() const;
  void read_ends();
  void read_embedding(const ModelReader& reader);
  void read_layer_embedding(const ModelReader& reader);
  void read_last_norm(const ModelReader& reader);
  void read_head(const ModelReader& reader);
  /// Whether the head is the embedding by config.json, if it has that key.
  std::optional<bool> tied_by_config() const;
  bool read_decoder(const ModelReader& reader, std::size_t in, ModelHead& head);
  void read_decoder_bias(const ModelReader& reader, ModelHead& head) const;
  void set_token_scale();
  void set_positions();
  Tensor no_tokens(const ModelReader& reader) const;
  void note_lost_head(const naming::DescribedTensor& lost);
  void note_other_head(const ModelReader& reader, std::string_view what_ties);
  void check_experts(const TransformerBlock& first) const;
  void check_config() const;

  std::vector<naming::Found> layers_;
  std::vector<std::string> ids_;
  std::vector<std::optional<std::size_t>> keys_of_; ///< by layer
  std::shared_ptr<const naming::Description> description_;
  Embedding embedding_;
  LayerEmbedding layer_embedding_;
  Tensor first_rows_;
  Norm last_norm_;
  ModelHead head_;
  std::vector<Note> notes_;
};

} // namespace mha
