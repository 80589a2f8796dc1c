#pragma once
// Texts of a whole model's run: their tokens, and the inputs of the layers.

#include <mha/load/layer_input.hpp>
#include <mha/model/text.hpp>
#include <mha/model/weights.hpp>

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace mha {

class Fingerprint;

/// A batch of texts, each of its own length, as token numbers of a model, or vectors in their
/// place. Not changed once it is made; several threads may use it.
class Texts {
public:
  /// Typed token numbers, or texts that the checkpoint's tokenizer cuts. Throws Error for what
  /// cannot be read, and for tokens that the model does not have.
  Texts(std::shared_ptr<const Weights> weights, const Text& text);
  /// Token numbers; `source` is what messages call them. `labelled`: layers get the tokens' texts,
  /// for which the tokenizer is read where there is one.
  Texts(std::shared_ptr<const Weights> weights, TokenIds tokens, std::string source, bool labelled);
  /// Some of other texts: `count` from `first` on, without the padding that the others need; after
  /// the last one comes the first. The notes about all texts are not repeated.
  Texts(const Texts& texts, std::size_t first, std::size_t count, std::string source, bool batched);
  /// The tokens of other texts from position `from` on, each where it is in its text. Throws Error
  /// where a text has no such token, and for texts of several lengths.
  Texts(const Texts& texts, std::size_t from);

  const std::shared_ptr<const Weights>& weights() const { return weights_; }
  const WholeModel& model() const { return weights_->model(); }
  /// The ids of the model's layers, in their order.
  const std::vector<std::string>& layers() const { return model().layers(); }
  /// The model's, with the given rows as its table of tokens where vectors are given.
  const Embedding& embedding() const { return of_rows_ ? *of_rows_ : model().embedding(); }

  /// The token numbers of each text; padded at the end where they are not equally long.
  const std::vector<std::vector<int>>& ids() const { return ids_; }
  /// The lengths of the texts without padding.
  const std::vector<std::size_t>& lengths() const { return lengths_; }
  /// The number of tokens of all texts.
  std::size_t tokens() const;
  bool batched() const { return batched_; }
  /// What the user should know about the texts and the model.
  const std::vector<Note>& notes() const { return notes_; }
  /// A layer's warnings, without those about the texts.
  std::vector<Note> warnings_of(const std::vector<Note>& of_layer) const;

  /// A token as a label ("␣sun"), and as text (" sun"); its number where there is no tokenizer.
  std::string label(int id) const;
  std::string plain(int id) const;
  /// The text of tokens in a row.
  std::string plain(std::span<const int> ids) const;
  /// Whether a token's text begins with a blank.
  bool begins_word(int id) const;
  /// The number of a word that is one token, if need be with a leading blank. Throws Error with the
  /// word's pieces, or for an unknown word; messages begin with `option` and end with `cure`.
  int token_of(const std::string& word, std::string_view option, std::string_view cure = "") const;
  /// As the vocabulary has it ("Ġsun"); "" where there is no tokenizer.
  std::string piece(int id) const;
  /// The places (text, position) of tokens that hide a word, as [MASK] does.
  std::vector<std::pair<std::size_t, std::size_t>> hidden_positions() const;
  /// Whether a position is predicted by default: a text's last one, or a hidden one.
  bool is_asked(std::size_t batch, std::size_t position) const;
  /// Throws Error where vectors are given: `what` asks which token comes next.
  void require_token_numbers(std::string_view what) const;

  /// What enters the first layer, computed: B, T, d_model; zeros in the padding.
  Tensor embedded() const;
  /// The tokens' embeddings for a layer, B, T, d_layer, by what enters the first one; empty where
  /// the model has none.
  Tensor embedded_for(std::size_t number, const Tensor& embedded) const;
  /// A stream of these sizes without numbers. Throws Error where memory does not suffice.
  Tensor zeros() const;
  /// The input of layer `number`, which reads `stream` (B, T, d_model), after `past`.
  LayerInput input(std::size_t number, const Tensor& stream, const LayerPast& past = {}) const;
  /// The input of the model's ends; `ends` gets these, with what embedded() gave and the last
  /// stream.
  LayerInput input_of_ends(const Tensor& embedded, const Tensor& stream,
                           std::shared_ptr<const ModelEnds>& ends) const;
  /// The same as a layer.
  Layer ends(const Tensor& embedded, const Tensor& stream) const;
  /// The index of a layer in layers(). Throws Error for an unknown one.
  std::size_t place_of(const std::string& id) const;
  /// Everything that decides what enters the first layer.
  void add_to(Fingerprint& fingerprint) const;

private:
  void read(const Text& text);
  void read_vectors(const Text& text);
  void read_tokenizer(bool needed);
  /// `place_of` names a text in messages; empty: its number does.
  void take_tokens(const std::function<std::string(std::size_t)>& place_of = {});
  void require_streams() const;
  LayerInput like_stream() const;

  std::shared_ptr<const Weights> weights_;
  const tokenizers::Tokenizer* tokenizer_ = nullptr; ///< the weights', where tokens are labelled
  std::vector<Note> notes_;
  std::vector<std::vector<int>> ids_;
  std::vector<std::size_t> lengths_;
  bool batched_ = false;
  std::string source_;
  std::size_t first_position_ = 0; ///< of the first token in its text
  /// Where vectors are given: row b · T + t is token t of text b.
  std::optional<Embedding> of_rows_;
};

/// Notes about one text, which name it if there are several.
std::vector<Note> notes_of_text(std::vector<Note> notes, std::size_t text, bool several);

/// Throws Error for a tokenizer whose template puts a text's tokens into another segment than 0,
/// the only one that is computed, of a model that has a vector for each segment.
void require_first_segment(const tokenizers::Tokenizer& tokenizer, const WholeModel& model);

} // namespace mha
