#pragma once
// A whole model and a text: every layer's input, in one pass from the first to the last one needed.

#include <mha/load/inputs.hpp>
#include <mha/load/tokenizers/tokenizer.hpp>
#include <mha/load/whole_model.hpp>
#include <mha/schedule/times.hpp>

#include <string>
#include <utility>
#include <vector>

namespace mha {

/// What is to be run, as the command line says it. Several of one kind are a batch.
struct Text {
  std::vector<std::string> ids;   ///< "464,2068", or a file: .npy, .json …, T or B × T
  std::vector<std::string> texts; ///< as they are
  std::vector<std::string> files; ///< of text: their bytes as they are; "-" is standard input
  bool each_line = false;         ///< of the files: every line is a text
  tokenizers::SpecialTokens special;

  bool given() const { return !ids.empty() || !texts.empty() || !files.empty(); }
};

class ModelPass : public Inputs {
public:
  Text text;

  bool given() const override { return text.given(); }
  void open(const io::Contents& checkpoint, const std::vector<naming::Found>& found,
            std::optional<DType> precision) override;
  const std::vector<std::string>& layers() const override { return model_->layers(); }
  LayerInput input(const Model& model, const std::string& id, bool outline) override;
  LayerInput ends(const Model& model, bool stream, bool outline,
                  std::shared_ptr<const ModelEnds>& ends) override;

  /// The model's ends with the stream behind the first `layers` layers in the last one's place.
  Layer ends_after(const Model& model, std::size_t layers);

  /// Begins again: the next layer that is asked for is computed from the embedding on.
  void rewind();
  /// How long each layer took that was computed here, since the last rewind().
  struct LayerTimes {
    double read = 0; ///< to make the layer of the checkpoint's tensors
    PhaseTimes phases;
  };
  const std::vector<LayerTimes>& times() const { return times_; }

  void check(const Layer& layer) const override { model_->check_layer(layer); }
  void remark(Note note) override { notes_.push_back(std::move(note)); }
  std::vector<OfLayer> take_warnings() override { return std::exchange(warnings_, {}); }
  /// What the user should know about the text and the model.
  const std::vector<Note>& notes() const { return notes_; }
  bool batched() const { return batched_; }
  /// A token for eyes ("␣sun"), and as text (" sun"); its number where there is no tokenizer.
  std::string label(int id) const;
  std::string plain(int id) const;
  /// The places (text, position) of tokens that hide a word, as [MASK] does.
  std::vector<std::pair<std::size_t, std::size_t>> hidden_positions() const;
  /// Whether a position is what predictions are made at where none is chosen: a text's last one, or
  /// a hidden one.
  bool is_asked(std::size_t batch, std::size_t position) const;

  const WholeModel& model() const { return *model_; }
  /// The token numbers of each text; padded at the end where they are not equally long.
  const std::vector<std::vector<int>>& ids() const { return ids_; }
  /// How many of them are the text's own.
  const std::vector<std::size_t>& lengths() const { return lengths_; }

  std::shared_ptr<Observer> handover(const Layer& layer, const std::string& id) override;

private:
  class Handover;
  void read_texts(const std::string& folder);
  void advance(const Model& model, std::size_t to);
  void keep_warnings(const std::vector<Note>& of_layer);
  const Tensor& embedded();
  LayerInput like_stream() const;

  std::optional<WholeModel> model_;
  std::optional<tokenizers::Tokenizer> tokenizer_;
  std::vector<Note> notes_;
  std::vector<OfLayer> warnings_;
  std::vector<std::vector<int>> ids_;
  std::vector<std::size_t> lengths_;
  bool batched_ = false;
  std::string source_;
  Tensor attention_mask_;
  DType dtype_ = DType::f32;
  Tensor embed_;  ///< B, T, d_model
  Tensor stream_; ///< before layer `at_`, or behind the last
  std::size_t at_ = 0;
  std::vector<LayerTimes> times_;
  std::shared_ptr<Handover> handover_; ///< of layer `at_`, or null
};

} // namespace mha
