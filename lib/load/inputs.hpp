#pragma once
// Inputs of a whole model's layers that no file gives: made of a text by what
// can compute layers (model/pass.hpp).

#include <mha/layer/layer.hpp>
#include <mha/load/families/family.hpp>
#include <mha/system/note.hpp>

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace mha {

class Sources;
class LayerPass;
class Fingerprint;

/// What one layer gets.
struct LayerInput {
  Tensor X; ///< (B,) T, d_model: the residual stream before the layer
  std::shared_ptr<const TransformerBlock> block;
  std::vector<std::string> labels;                   ///< of the tokens; empty: none
  std::vector<std::vector<std::string>> item_labels; ///< of several texts: those of each
  std::vector<std::size_t> lengths;  ///< of each text without padding; empty: there is none
  std::vector<Note> notes;           ///< what the user should know about the text and the model
  std::string source;                ///< for messages: "--text"
  std::shared_ptr<KeptWeights> kept; ///< the packed weights of all passes
};

/// A "layer" that has the model's own stages alone: embed, final, logits.
Layer layer_of_ends(const LayerInput& input, std::shared_ptr<const ModelEnds> ends);

class Inputs {
public:
  virtual ~Inputs() = default;
  /// Whether there is a text; without one, layers are read as files say.
  virtual bool given() const = 0;
  /// Reads the text for the model that these layers are. Once, before anything is asked for.
  /// `precision`: to compute in; default: float32, float64 for float64 weights.
  virtual void open(const io::Contents& checkpoint, const std::vector<naming::Found>& found,
                    std::optional<DType> precision) = 0;
  /// The ids of the model's layers, in their order.
  virtual const std::vector<std::string>& layers() const = 0;
  /// The input of a layer: those before it are computed by `model`'s layers. As an outline only its
  /// shape counts, and nothing is computed.
  virtual LayerInput input(const Sources& model, const std::string& id, bool outline) = 0;
  /// The model's ends; `stream`: with what the last layer hands on.
  virtual LayerInput ends(const Sources& model, bool stream, bool outline,
                          std::shared_ptr<const ModelEnds>& ends) = 0;
  /// Whether a layer after this one, or the model's end, is going to be asked for.
  virtual bool goes_on(const Sources& model, const std::string& id) const = 0;
  /// A layer was made and will be computed: what it hands on is the next one's input.
  virtual void began(std::shared_ptr<LayerPass> pass, const std::string& id) = 0;
  /// Everything that decides what enters the first layer.
  virtual void add_to(Fingerprint& fingerprint) const = 0;
  /// Throws Error where the config contradicts what a layer's tensors are.
  virtual void check(const Layer& layer) const = 0;
  /// Something else to be said with every layer: how options of the run are meant.
  virtual void add_note(Note note) = 0;
  /// What was warned of in a layer that was not chosen, but which others' inputs are made with.
  struct OfLayer {
    std::string id;
    std::vector<Note> warnings;
  };
  /// Those of the layers computed since the last call.
  virtual std::vector<OfLayer> take_warnings() = 0;
  /// Threads for what is computed here; 0: as many as pay.
  std::size_t threads = 0;
  /// Seconds that layers took which were computed here, for others' inputs.
  double computed_s = 0;
};

} // namespace mha
