#pragma once
// From SOURCES to layers: opens the files, recognises their naming, merges bindings and settings.

#include <mha/layer/fingerprint.hpp>
#include <mha/layer/layer.hpp>
#include <mha/load/families/family.hpp>
#include <mha/load/layer_input.hpp>
#include <mha/load/source.hpp>
#include <mha/system/note.hpp>

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace mha {

class Sources;
class WholeModel;

/// Which layers are read, of which files, and how.
struct Request {
  std::vector<std::string> sources; ///< as typed
  /// Contents that a program holds in memory, read after the files.
  std::vector<io::Contents> in_memory;
  /// A program's tensors by name, bound as NAME=FILE binds a file's.
  std::vector<std::pair<std::string, Tensor>> bound;
  std::vector<std::pair<std::string, std::string>>
      settings;                   ///< ("num_heads", "4"), from options, which win over files
  std::optional<DType> dtype;     ///< --dtype f32|f64
  std::string layer;              ///< --layer: "", "1", "0-3", "all", "decoder.3.cross"
  std::string prefix;             ///< --prefix: where the layer's tensors are
  std::string naming;             ///< --naming: a family by name, or ""
  std::string config;             ///< --config: a config.json, or ""
  std::string tokens, key_tokens; ///< file, or words in one string, or ""
  bool gguf_order = false;        ///< --gguf-order: queries and keys of GGUF in the file's order
  bool same_x = false;            ///< --same-x: one tensor may serve several layers
  /// Stages in files without a weight, mask or other part of a layer are given stages, as if they
  /// were bound: two dumps can be compared.
  bool results_given = false;
  /// The sources are a whole model, whose layers get their inputs from texts; otherwise from files.
  bool for_texts = false;
  /// Of a whole model: the stages asked for; none: all. Those of the model itself (embed, final,
  /// logits) are a "layer" without an id, which `shows_ends` offers where no layer is chosen.
  std::vector<std::string> stages;
  bool shows_ends = false;
  /// Without a text, X of a whole model's layer is the stream that enters it, unless input_norm is
  /// set to something else; the layer then also has the block around its attention.
  bool X_is_stream = false;
  /// Several texts are computed: a layer that was read is kept for the next one.
  bool keeps_layers = false;
  /// How a layer names the sources of its X, its labels and its settings.
  Wording wording = Wording::program;
};

/// Where one tensor of the layer came from, for `info`.
struct Origin {
  std::string name;   ///< canonical: "W_q"
  std::string source; ///< "data/induction: model.layers.0.self_attn.q_proj.weight"
  DType dtype = DType::f32;
  Shape shape; ///< in the file
  /// Bound without @AXES to a tensor of another name, so that the order of its axes is not given.
  bool orientation_unknown = false;
};

/// How often layers were made of the files' tensors, and computed, since the files were opened.
struct LayerCounts {
  std::atomic<std::size_t> made = 0, computed = 0;
};

/// Warnings about one layer; `id` is empty for the parts after the last layer.
struct LayerWarnings {
  std::string id;
  std::vector<Note> warnings;
};

/// A layer with what `info` shows about it.
struct LoadedLayer {
  std::string id;     ///< "1"; "" where the files hold one layer without a number
  std::string naming; ///< "LLaMA", "PyTorch MultiheadAttention", "canonical"
  Layer layer;
  std::vector<Origin> origins;
  std::vector<Note> notes; ///< what was assumed or skipped, or should be known
  /// Where q, k and v may have another order of heads and tokens than they are read in: the
  /// bindings for that order ("q=good.pt:q@BTHD").
  std::vector<std::string> other_order;
  bool X_of_text = false; ///< X, or the stream of a model's ends, is a text's
  /// About layers that were not asked for, but computed for this one's input.
  std::vector<LayerWarnings> on_the_way;
};

/// Adds a layer to a fingerprint. X is left out where a text gives it: OpenedModel::add_input_of
/// adds what it is made of.
void add_to(Fingerprint& fingerprint, const LoadedLayer& loaded);

/// One layer in the files, before anything is read.
struct LayerListing {
  std::string id, prefix, naming;
};

struct LayerSource;

/// The opened sources. Opening reads headers only. Copies share what was read, and several threads
/// may load layers.
class Sources {
public:
  explicit Sources(Request request);

  const Request& request() const;

  /// The ids of the layers that the request chooses, in order ({""} for a lone layer). Throws Error
  /// that lists the layers where there are several and none was chosen.
  const std::vector<std::string>& chosen() const;
  /// Every layer found in the files.
  const std::vector<LayerListing>& layers() const;
  /// The recognised layers of families with their tensors.
  const std::vector<naming::Found>& found() const;
  /// Everything in the files, under its own names.
  const std::vector<io::Contents>& contents() const;
  /// The name of the input in messages: the first source ("data/induction").
  std::string title() const;

  /// The whole model for texts; null where none is opened (Request::for_texts).
  const std::shared_ptr<const WholeModel>& model() const;
  /// Notes for every layer of a text: about the model's leftovers and options of the run.
  const std::vector<Note>& notes_of_model() const;
  /// Whether one tensor would serve several of the chosen layers that each have their own.
  bool shares_a_tensor() const;
  /// Whether the stages asked for need more than the embedding of the parts around the layers.
  bool needs_last_stream() const;

  /// A tensor of a layer by its canonical name, as read (for `convert`).
  struct SourceTensor {
    std::string name;
    Tensor tensor;
    std::string source;
  };
  /// Reads, checks and assembles one layer. Throws Error. `input` is what it gets from texts; null:
  /// its input is in the files. `keeps` keeps what was read for the next time. `tensors`, if not
  /// null, gets the unconverted tensors.
  LoadedLayer load(const std::string& id, const LayerInput* input = nullptr, bool keeps = false,
                   std::vector<SourceTensor>* tensors = nullptr) const;
  /// The parts around the layers, for texts.
  LoadedLayer load_ends(const LayerInput& input, std::shared_ptr<const ModelEnds> ends) const;
  /// How often layers were made and computed, for all texts.
  const std::shared_ptr<LayerCounts>& counts() const;
  /// The unconverted tensors of a layer.
  std::vector<SourceTensor> tensors_of(const std::string& id,
                                       const LayerInput* input = nullptr) const;

  /// The tensors and settings of a layer of a kind that is not computed. For a mixture of experts
  /// whose attention is computed, those beside attention; else nothing.
  struct OfKind {
    struct Setting {
      std::string name, value, origin;
    };
    std::string naming;
    std::vector<SourceTensor> tensors;
    std::vector<Setting> settings;
  };
  OfKind of_kind(const std::string& id) const;

private:
  std::shared_ptr<const LayerSource> state_;
};

} // namespace mha
