#pragma once
// A whole model and a text: every layer's input, in one pass from the first to the last one needed.

#include <mha/load/inputs.hpp>
#include <mha/model/token_ids.hpp>
#include <mha/model/weights.hpp>
#include <mha/schedule/times.hpp>

#include <span>
#include <string>
#include <utility>
#include <vector>

namespace mha {

struct Request;

/// What is to be run, as the command line says it. Several of one kind are a batch.
struct Text {
  std::vector<std::string> ids;   ///< "464,2068", or a file: .npy, .json …, T or B × T
  std::vector<std::string> texts; ///< as they are
  std::vector<std::string> files; ///< of text: their bytes as they are; "-" is standard input
  std::string rows;               ///< a file of vectors in the place of the tokens' rows
  bool each_line = false;         ///< of the files: every line is a text
  bool batch = false;             ///< results have the batch axis, of one text too
  tokenizers::SpecialTokens special;

  bool given() const { return !ids.empty() || !texts.empty() || !files.empty() || !rows.empty(); }
};

class ModelPass : public Inputs {
public:
  ModelPass() = default;
  /// Another text for a model that was opened.
  ModelPass(const ModelPass& opened, Text text);
  /// Token numbers for weights that were opened; `source` is what messages call them. `labelled`:
  /// layers get the tokens' texts, for which the tokenizer is read where there is one.
  ModelPass(std::shared_ptr<const Weights> weights, TokenIds tokens, std::string source,
            bool labelled);
  /// Some texts of another pass: `count` from `first` on, without the padding that the others need;
  /// behind the last one comes the first. Its notes are those of all, and are not repeated.
  ModelPass(const ModelPass& texts, std::size_t first, std::size_t count, std::string source,
            bool batched);

  Text text;
  /// Whether a model is opened without a text: the texts come later, each with a pass of its own.
  bool opens_model = false;

  /// Bytes that the packed weights kept from one pass to the next may take; none: half of what is
  /// free.
  std::optional<std::size_t> memory;

  /// Throws Error for options of a text that change nothing: --each-line without a file, --bos and
  /// --no-special without a text to cut or against each other.
  bool given() const override;
  void open(const io::Contents& checkpoint, const std::vector<naming::Found>& found,
            std::optional<DType> precision) override;
  const std::vector<std::string>& layers() const override { return model().layers(); }
  LayerInput input(const Sources& sources, const std::string& id, bool outline) override;
  LayerInput ends(const Sources& sources, bool stream, bool outline,
                  std::shared_ptr<const ModelEnds>& ends) override;

  /// The model's ends with the stream behind the first `layers` layers in the last one's place.
  Layer ends_after(const Sources& sources, std::size_t layers);

  /// Begins again: the next layer that is asked for is computed from the embedding on.
  void rewind();
  /// How long each layer took that was computed here, since the last rewind().
  struct LayerTimes {
    double read = 0; ///< to make the layer of the checkpoint's tensors
    PhaseTimes phases;
  };
  const std::vector<LayerTimes>& times() const { return times_; }

  void check(const Layer& layer) const override { model().check_layer(layer); }
  void add_note(Note note) override { notes_.push_back(std::move(note)); }
  std::vector<OfLayer> take_warnings() override { return std::exchange(warnings_, {}); }
  /// A layer's warnings, without what is said of the text.
  std::vector<Note> warnings_of(const std::vector<Note>& of_layer) const;
  /// What the user should know about the text and the model.
  const std::vector<Note>& notes() const { return notes_; }
  bool batched() const { return batched_; }
  /// A token for eyes ("␣sun"), and as text (" sun"); its number where there is no tokenizer.
  std::string label(int id) const;
  std::string plain(int id) const;
  /// The text of tokens that stand side by side, and whether a blank stands before one of them.
  std::string plain(std::span<const int> ids) const;
  bool begins_word(int id) const;
  /// The number of a word that is one token, with a leading blank if it is none without. Throws
  /// Error that shows its pieces, or that the vocabulary has none; `option` is what messages call
  /// the word, `cure` ends them.
  int token_of(const std::string& word, std::string_view option, std::string_view cure = "") const;
  /// As the vocabulary has it ("Ġsun"); "" where there is no tokenizer.
  std::string piece(int id) const;
  /// The places (text, position) of tokens that hide a word, as [MASK] does.
  std::vector<std::pair<std::size_t, std::size_t>> hidden_positions() const;
  /// Whether a position is what predictions are made at where none is chosen: a text's last one, or
  /// a hidden one.
  bool is_asked(std::size_t batch, std::size_t position) const;

  const WholeModel& model() const { return weights_->model(); }
  const std::shared_ptr<const Weights>& weights() const { return weights_; }
  /// The model's, with the given rows as its table of tokens where vectors are given.
  const Embedding& embedding() const { return of_rows_ ? *of_rows_ : model().embedding(); }
  /// Throws Error where vectors are given: `what` asks which token comes next.
  void require_token_numbers(std::string_view what) const;
  /// What enters the first layer: B, T, d_model; zeros behind the end of a text.
  const Tensor& embedded();
  /// What stands behind the last layer, which is to read `stream` (B, T, d_model).
  Layer ends_of(const Tensor& stream);

  /// The token numbers of each text; padded at the end where they are not equally long.
  const std::vector<std::vector<int>>& ids() const { return ids_; }
  /// How many of them are the text's own.
  const std::vector<std::size_t>& lengths() const { return lengths_; }

  bool goes_on(const Sources& sources, const std::string& id) const override;
  void began(std::shared_ptr<LayerPass> pass, const std::string& id) override;
  void add_to(Fingerprint& fingerprint) const override;
  /// Layers from this one on are not asked for, whatever was chosen.
  void end_before(std::size_t layer) { end_ = layer; }

private:
  void take_text();
  void read_texts();
  void read_vectors();
  void read_tokenizer(bool needed);
  void take_tokens();
  void require_streams() const;
  std::size_t place_of(const std::string& id) const;
  void advance(const Sources& sources, std::size_t to);
  void finish(const std::shared_ptr<LayerPass>& pass, LayerTimes& times);
  LayerInput like_stream() const;
  LayerInput input_of_ends(const Tensor& embed, const Tensor& stream,
                           std::shared_ptr<const ModelEnds>& ends) const;

  std::shared_ptr<const Weights> weights_;           ///< of all texts
  const tokenizers::Tokenizer* tokenizer_ = nullptr; ///< the weights', where tokens are labelled
  std::vector<Note> notes_;
  std::vector<OfLayer> warnings_;
  std::vector<std::vector<int>> ids_;
  std::vector<std::size_t> lengths_;
  bool batched_ = false;
  std::string source_;
  std::optional<Embedding>
      of_rows_;   ///< where vectors are given: row b · T + t is token t of text b
  Tensor embed_;  ///< B, T, d_model
  Tensor stream_; ///< before layer `at_`, or behind the last
  std::size_t at_ = 0;
  std::vector<LayerTimes> times_;
  std::shared_ptr<LayerPass> pass_; ///< of layer `at_`, if it was made; it hands on
  std::size_t to_ = 0;              ///< where the stream is brought to
  std::optional<std::size_t> end_;  ///< layers from here on are not asked for
};

/// What is said of one text; of several, of which.
std::vector<Note> notes_of_text(std::vector<Note> notes, std::size_t text, bool several);

/// Throws Error for a tokenizer whose template puts a text's tokens into another segment than 0,
/// the only one that is computed, of a model that has a vector for each segment.
void require_first_segment(const tokenizers::Tokenizer& tokenizer, const WholeModel& model);

/// A request to be opened beside another of the same text. Copies of a Request share its pass,
/// which stands in the layers of the Sources that opened it: this one has a pass of its own.
Request on_own_pass(Request request);

/// The pass of a request, shared with it; nullptr where it has none. load/ knows it as Inputs, of
/// which it is the only kind.
std::shared_ptr<ModelPass> pass_of(const Request& request);

} // namespace mha
