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

/// Hands out the layers of sources, each with its input: what files give, or, of a whole model with
/// texts, the stream after the layers before it, which moves on from layer to layer. A layer
/// that is computed by compute() also makes what the next one reads, so that in one pass each layer
/// is computed once. For one thread.
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
  /// The ids of the chosen layers; what stands around a model's layers is "", behind them.
  const std::vector<std::string>& chosen() const { return sources_.chosen(); }
  /// How messages call the input.
  std::string title() const { return sources_.title(); }

  /// Reads, checks and assembles one layer, with its input. Throws Error.
  LoadedLayer load(const std::string& id) { return load(id, nullptr); }
  /// The same, and its tensors as they were read.
  LoadedLayer load(const std::string& id, std::vector<Sources::SourceTensor>& tensors) {
    return load(id, &tensors);
  }
  /// The function that computes plans of the layer handed out last (LayerRun::compute).
  ComputeLayer compute() const;
  /// The tensors of a layer as they were read.
  std::vector<Sources::SourceTensor> tensors_of(const std::string& id);
  /// A layer whose sizes count; of a text, X has no numbers, and nothing is computed.
  LoadedLayer outline(const std::string& id) const;

  /// What is around the layers, with the stream after the first `layers` of them in the last
  /// one's place.
  LoadedLayer ends_after(std::size_t layers);
  /// How long each layer took that was computed here, for others' inputs.
  const std::vector<LayerTimes>& times() const { return times_; }
  /// Seconds that layers took which were computed here, for others' inputs.
  double computed_s = 0;
  /// Threads for what is computed here; 0: as many as pay.
  std::size_t threads = 0;
  /// Layers are handed out with the rollout of those before them: as where one is asked for.
  void roll_out() { rolls_ = true; }

  /// Everything that decides what a text's layer begins with: the texts, the embedding, and the
  /// layers before it, with what was bound of them, but for the first `added`, which are in it.
  /// Then `added` counts these, too.
  void add_input_of(const std::string& id, Fingerprint& fingerprint, std::size_t& added) const;

private:
  LoadedLayer load(const std::string& id, std::vector<Sources::SourceTensor>* parts);
  std::shared_ptr<const TextLayers> layers_of(std::shared_ptr<const Texts> texts, bool kept) const;
  LoadedLayer handed_out(LoadedLayer loaded);
  void go_on_rolling_out(LoadedLayer& loaded);
  const Tensor& stream_to(std::size_t number);
  void add_times(const LayerTimes& times);
  bool is_read_after(std::size_t number) const;
  PatchLayer patch_layer() const;
  LoadedLayer patched(LoadedLayer loaded) const;

  std::shared_ptr<const RunRequest> request_;
  Sources sources_;
  std::shared_ptr<const Texts> texts_;
  std::shared_ptr<const TextLayers> layers_; ///< of the texts, none kept; null without texts
  Residual stream_;                          ///< empty: not computed yet
  std::size_t to_ = 0;                       ///< where the stream is brought to
  std::shared_ptr<LayerRun> run_;            ///< of the layer that reads the stream, if it was made
  std::shared_ptr<LayerRun> last_;           ///< of the layer that was handed out last
  std::vector<LayerTimes> times_;
  bool rolls_ = false;
  std::size_t rolled_out_ = 0; ///< layers of files, from layer 0 on
};

/// The same computation in float64, made when a stage of it is asked for: how far ours is from it
/// is what rounding does.
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
