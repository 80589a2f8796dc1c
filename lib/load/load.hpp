#pragma once
// From SOURCES to layers: opens the files, recognises their naming, merges bindings and settings.

#include <mha/layer/fingerprint.hpp>
#include <mha/layer/layer.hpp>
#include <mha/layer/layer_pass.hpp>
#include <mha/load/inputs.hpp>
#include <mha/load/source.hpp>
#include <mha/system/note.hpp>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace mha {

/// What the command line says about the layer.
struct Request {
  std::vector<std::string> sources; ///< as typed
  /// What a program holds in memory, read as a file's contents, behind the files.
  std::vector<io::Contents> in_memory;
  /// A program's tensors by name, bound as NAME=FILE binds one of a file.
  std::vector<std::pair<std::string, Tensor>> bound;
  std::vector<std::pair<std::string, std::string>>
      settings;                   ///< ("num_heads", "4"), from options: they win
  std::optional<DType> dtype;     ///< --dtype f32|f64
  std::string layer;              ///< --layer: "", "1", "0-3", "all", "decoder.3.cross"
  std::string prefix;             ///< --prefix: where the layer's tensors are
  std::string naming;             ///< --naming: a family by name, or ""
  std::string config;             ///< --config: a config.json, or ""
  std::string tokens, key_tokens; ///< file, or words in one string, or ""
  bool gguf_order = false;        ///< --gguf-order: queries and keys of GGUF in the file's order
  bool same_x = false;            ///< --same-x: one tensor may serve several layers
  /// Stages in files that hold no weight, mask or other part of a layer are taken as they are, as
  /// if they were bound: two dumps can be compared.
  bool results_given = false;
  /// The text that a whole model's layers are computed for; null, or without a text: none.
  std::shared_ptr<Inputs> inputs;
  /// Of a whole model: the stages asked for; none: all. Those of the model itself (embed, final,
  /// logits) are a "layer" without an id, which `shows_ends` offers where no layer is chosen.
  std::vector<std::string> stages;
  bool shows_ends = false;
  /// Without a text, X of a whole model's layer is the stream that enters it, unless input_norm
  /// says otherwise: the layer has what stands around its attention, too.
  bool X_is_stream = false;
  /// Several texts are computed: what was read of a layer is kept for the next one.
  bool keeps_layers = false;

  /// Patches as typed, and what puts them on a layer when it is made (model/patcher.hpp): it says
  /// what is to be known of their values.
  std::vector<std::string> patches;
  std::function<std::vector<Note>(Layer& layer, const std::string& id, const Sources& sources,
                                  const Request& request)>
      patch_layer;

  bool has_text() const { return inputs && inputs->given(); }
};

/// Where one tensor of the layer came from, for `info`.
struct Origin {
  std::string name;   ///< canonical: "W_q"
  std::string source; ///< "data/induction: model.layers.0.self_attn.q_proj.weight"
  DType dtype = DType::f32;
  Shape shape; ///< as in the file
  /// Bound without @AXES to a tensor of another name: which of its axes is which was not said.
  bool orientation_unknown = false;
};

/// A layer with what `info` tells about it.
struct LoadedLayer {
  std::string id;     ///< "1"; "" where the files hold one layer without a number
  std::string naming; ///< "LLaMA", "PyTorch MultiheadAttention", "canonical"
  Layer layer;
  std::vector<Origin> origins;
  std::vector<Note> notes; ///< what was taken silently, passed over or should be known
  bool X_of_text = false;  ///< X, or the stream of a model's ends, is what a text gives
};

/// A layer's fingerprint. X is left out where a text gives it: Sources::add_input_of says what it
/// is made of.
void add_to(Fingerprint& fingerprint, const LoadedLayer& loaded);

/// One layer that the files hold, before anything is read.
struct LayerListing {
  std::string id, prefix, naming;
};

/// The opened sources. Opening reads headers only.
class Sources {
public:
  explicit Sources(Request request);

  /// The ids of the layers that the request chooses, in order ({""} for a lone layer). Throws Error
  /// that lists the layers where there are several and none was chosen.
  const std::vector<std::string>& chosen() const;
  /// Every layer found in the files.
  const std::vector<LayerListing>& layers() const;
  /// The layers of families, with their tensors, as they were recognised.
  const std::vector<naming::Found>& found() const;
  /// Everything in the files, as it is.
  const std::vector<io::Contents>& contents() const;
  /// How messages call the input: the first source ("data/induction").
  std::string title() const;

  /// Reads, checks and assembles one layer. Throws Error.
  LoadedLayer load(const std::string& id) const { return load(id, false); }
  /// The same; of a whole model's layer with no numbers in X, whose shape counts.
  LoadedLayer outline(const std::string& id) const { return load(id, true); }
  /// Puts the request's patches on a layer; of what stands behind the last, `id` is empty. What is
  /// to be known of their values, such as the text that they are from, is told once.
  std::vector<Note> put_patches(Layer& layer, const std::string& id) const;
  /// The text that there is, or null.
  Inputs* text() const { return inputs_ && inputs_->given() ? inputs_.get() : nullptr; }
  /// The same files for another text: what was read of them for one serves the other. May be called
  /// from several threads, as may load() of what it returns, each on one.
  Sources for_text(std::shared_ptr<Inputs> inputs) const;
  /// How often layers were made and computed, for all texts.
  const std::shared_ptr<LayerCounts>& counts() const;
  /// Everything that decides what a text's layer begins with: the text, the embedding, and the
  /// layers before it, with what was bound of them, but for the first `added`, which are in it.
  /// Then `added` counts these, too.
  void add_input_of(const std::string& id, Fingerprint& fingerprint, std::size_t& added) const;
  /// The tensors of a layer by canonical name, as read (for `convert`): no precision chosen.
  struct SourceTensor {
    std::string name;
    Tensor tensor;
    std::string source;
  };
  std::vector<SourceTensor> parts(const std::string& id) const;
  /// A layer and its tensors, of one reading.
  LoadedLayer load(const std::string& id, std::vector<SourceTensor>& parts) const;

private:
  struct State;
  Sources(std::shared_ptr<const State> state, std::shared_ptr<Inputs> inputs);
  LoadedLayer load(const std::string& id, bool outline,
                   std::vector<SourceTensor>* parts = nullptr) const;
  LoadedLayer load_ends(bool outline) const;
  std::shared_ptr<const State> state_;
  std::shared_ptr<Inputs> inputs_;
};

} // namespace mha
