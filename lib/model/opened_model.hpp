#pragma once
// Layers of files, or of a whole model with texts, opened for a command.

#include <mha/model/layer_run.hpp>
#include <mha/model/run.hpp>
#include <mha/model/run_request.hpp>
#include <mha/schedule/times.hpp>

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace mha {

/// Loads the layers of sources, each with its input. That comes from files or, for a whole model
/// with texts, it is the stream after the layers before it, which moves from layer to layer.
/// compute() also keeps what the next layer reads, so that a pass computes each layer once. For one
/// thread.
class OpenedModel {
public:
  /// Throws Error as Sources, Weights and Texts do.
  explicit OpenedModel(RunRequest request);
  /// Files that are opened already, for texts of their model.
  OpenedModel(Sources sources, std::shared_ptr<const Texts> texts);
  /// The same files for other texts: what was read for one serves the other.
  OpenedModel(const OpenedModel& opened, std::shared_ptr<const Texts> texts);

  const RunRequest& request() const { return *request_; }
  const Sources& sources() const { return sources_; }
  /// The texts that layers are computed for; null where files give their inputs.
  const std::shared_ptr<const Texts>& texts() const { return texts_; }
  /// The layers of its texts, or of others of the same model, with the run's patches.
  std::shared_ptr<const TextLayers> text_layers() const { return layers_of(texts_, true); }
  std::shared_ptr<const TextLayers> text_layers(std::shared_ptr<const Texts> texts) const {
    return layers_of(std::move(texts), true);
  }
  /// The ids of the chosen layers; the model's ends are "", after the layers.
  const std::vector<std::string>& chosen() const { return sources_.chosen(); }
  /// The name of the input in messages.
  std::string title() const { return sources_.title(); }

  /// Reads, checks and assembles one layer, with its input. Throws Error.
  LoadedLayer load(const std::string& id) { return load(id, nullptr); }
  /// The same, and the layer's tensors as read from the files.
  LoadedLayer load(const std::string& id, std::vector<Sources::SourceTensor>& tensors) {
    return load(id, &tensors);
  }
  /// The function that computes plans of the layer that was loaded last (LayerRun::compute).
  ComputeLayer compute() const;
  /// The tensors of a layer as read from the files.
  std::vector<Sources::SourceTensor> tensors_of(const std::string& id);
  /// A layer for its sizes alone: with texts, X has no numbers, and nothing is computed.
  LoadedLayer outline(const std::string& id) const;

  /// The model's ends, with the stream after the first `layers` layers in place of the last one's.
  LoadedLayer ends_after(std::size_t layers);
  /// The times of each layer that was computed here, for the inputs of others.
  const std::vector<LayerTimes>& times() const { return times_; }
  /// Their seconds together.
  double computed_s = 0;
  /// Threads for what is computed here; 0: as many as pay.
  std::size_t threads = 0;
  /// Loads layers with the rollout of those before them, as where one is asked for.
  void roll_out() { rolls_ = true; }

  /// Adds everything that decides the input of a text's layer: the texts, the embedding, and the
  /// layers before it with their bindings. The first `added` layers are in the fingerprint already;
  /// `added` then counts the new ones also.
  void add_input_of(const std::string& id, Fingerprint& fingerprint, std::size_t& added) const;

private:
  LoadedLayer load(const std::string& id, std::vector<Sources::SourceTensor>* parts);
  std::shared_ptr<const TextLayers> layers_of(std::shared_ptr<const Texts> texts, bool kept) const;
  LoadedLayer with_new_warnings(LoadedLayer loaded);
  void continue_rollout(LoadedLayer& loaded);
  const Residual& stream_to(std::size_t number);
  void add_times(const LayerTimes& times);
  bool is_read_after(std::size_t number) const;
  PatchLayer patch_layer() const;
  LoadedLayer patched(LoadedLayer loaded) const;

  std::shared_ptr<const RunRequest> request_;
  Sources sources_;
  std::shared_ptr<const Texts> texts_;
  std::shared_ptr<const TextLayers> layers_; ///< of the texts, none kept; null without texts
  Residual stream_;                          ///< empty: not computed yet
  std::size_t to_ = 0;                       ///< the farthest layer that the stream was brought to
  std::shared_ptr<LayerRun> run_;            ///< of the layer that reads the stream, if it was made
  std::shared_ptr<LayerRun> last_;           ///< of the layer that was loaded last
  std::vector<LayerTimes> times_;
  bool rolls_ = false;
  std::size_t rolled_out_ = 0; ///< layers of files, from layer 0 on
};

/// The same computation in float64, made when a stage of it is asked for. The distance from it is
/// the effect of rounding.
class ExactPass {
public:
  /// `open` opens the same files and texts in float64.
  explicit ExactPass(std::function<OpenedModel()> open) : open_(std::move(open)) {}

  /// Stages of the layer `id`, those of the wanted that can be computed.
  std::map<Stage, Tensor> stages(const std::string& id, const std::vector<Stage>& wanted,
                                 std::size_t threads);

private:
  std::function<OpenedModel()> open_;
  std::optional<OpenedModel> model_;
};

} // namespace mha
