#pragma once
// Runs of texts through a model's layers. The residual stream between two layers is a value, so
// that a kept one is where another run can begin.

#include <mha/load/edit.hpp>
#include <mha/load/load.hpp>
#include <mha/model/texts.hpp>
#include <mha/schedule/observer.hpp>
#include <mha/schedule/times.hpp>

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace mha {

/// Keys and values of a layer that later ones take: k_rope and v_norm, B, T, H_kv · d.
struct SharedKeys {
  Tensor k, v;
  std::size_t d_k = 0, d_v = 0;
};

/// The residual stream of texts before layer `layer`, or after the last where `layer` is their
/// number.
struct Residual {
  Tensor x; ///< B, T, d_model; zeros in the padding
  std::size_t layer = 0;
  Tensor rollout = {}; ///< B, T, T: of the layers before, where a run rolls out
  std::map<std::size_t, SharedKeys> keys = {}; ///< of the layers before, by their number
};

class LayerRun;

/// Puts a run's patches on a layer; `id` is empty for the model's end. Returns the notes about
/// their values, such as about the texts that these are from, each once and without those
/// `reported` already.
using PatchLayer = std::function<std::vector<Note>(Layer& layer, const std::string& id,
                                                   const std::vector<Note>& reported)>;

/// A model's layers for some texts: weights, masks and sizes. Each layer is made once, and given
/// the stream that it reads.
class TextLayers {
public:
  /// `edits`: other weights. `patch`: what each layer gets when it is made. `keeps`: each layer is
  /// kept for the next time; else one pass takes the memory of one layer.
  TextLayers(Sources sources, std::shared_ptr<const Texts> texts,
             std::vector<TensorEdit> edits = {}, PatchLayer patch = {}, bool keeps = true);

  /// The number of layers.
  std::size_t count() const { return texts_->layers().size(); }
  const Texts& texts() const { return *texts_; }
  /// What enters the first layer.
  Residual embedded() const;
  /// The layer that reads a stream, after `past`: of as many tokens each time. Throws Error where
  /// it cannot be made.
  Layer layer(const Residual& before, const LayerPast& past = {}) const;
  /// Layer n for its sizes and weights: its inputs have no numbers.
  Layer sized(std::size_t n) const;
  /// The same, not kept, with its notes.
  LoadedLayer outline(std::size_t n) const;
  /// The layer that reads a stream, not kept, with its notes; `parts`: gets its tensors as read
  /// from the files.
  LoadedLayer load(const Residual& before,
                   std::vector<Sources::SourceTensor>* parts = nullptr) const;
  /// What the layer that reads a stream is given.
  LayerInput input(const Residual& before, const LayerPast& past = {}) const;
  /// The model's end, whose last norm and head read `x`.
  Layer ends(const Tensor& x) const;
  /// The same, with its notes; `embedded`: what entered the first layer.
  LoadedLayer load_ends(const Tensor& embedded, const Tensor& x) const;
  /// Counts of how often layers were made and computed, over all runs of the opened model.
  const std::shared_ptr<LayerCounts>& counts() const { return sources_.counts(); }
  /// The notes about the texts and the layers that were made.
  std::vector<Note> notes() const;
  /// The warnings about each layer that was made, without those about the texts.
  std::vector<LayerWarnings> layer_warnings() const;
  /// Those since the last call.
  std::vector<LayerWarnings> take_layer_warnings() const;

private:
  const Tensor& embedding_of_texts() const;
  LayerInput outline_input(std::size_t n, const LayerPast& past = {}) const;
  LoadedLayer made(std::size_t n, const LayerInput& input, bool keeps,
                   std::vector<Sources::SourceTensor>* parts) const;
  const Layer& kept(std::size_t n, const LayerPast& past) const;
  void give_to_kept(Layer& layer, const Residual& before) const;
  Tensor embedded_for(std::size_t n) const;
  void note(const LoadedLayer& loaded) const;

  Sources sources_;
  std::shared_ptr<const Texts> texts_;
  std::vector<TensorEdit> edits_;
  PatchLayer patch_;
  bool keeps_;
  mutable std::mutex making_;
  mutable Tensor embedded_;                  ///< empty: not computed yet
  mutable std::vector<Tensor> embedded_for_; ///< by layer; empty: not computed yet, or none
  mutable std::map<std::size_t, std::optional<LayerPast>>
      zeros_of_keys_;                              ///< by the layer that gives them
  mutable std::vector<std::optional<Layer>> made_; ///< the last one is the model's ends
  mutable std::vector<Note> notes_;
  mutable std::vector<LayerWarnings> layer_warnings_;
};

/// How long it took to make a layer of the checkpoint's tensors and to compute it, and its phases.
struct LayerTimes {
  double made_s = 0, computed_s = 0;
  PhaseTimes phases;
};

/// Options of advance(), and callbacks while the stream moves from layer to layer.
struct Advance {
  /// Puts patches on layer n before it is computed.
  std::function<void(Layer& layer, std::size_t n)> patch = {};
  /// Observes layer n beside its stream; null: nothing is observed.
  std::function<Observer*(const Layer& layer, std::size_t n)> observer = {};
  /// Gets the times of layer n.
  std::function<void(std::size_t n, const LayerTimes&)> timed = {};
  /// Gets the stream after each layer.
  std::function<void(const Residual&)> arrived = {};
  /// The positions, in ascending order, that are read of the last stream, whose other rows may be
  /// zeros then; empty: all.
  std::vector<std::size_t> positions = {};
  /// The keys and values of earlier tokens, by layer; those of this run are added. A continued text
  /// (Texts) begins with what the run before it left here. Null: nothing is kept.
  std::vector<LayerPast>* past = nullptr;
  std::size_t threads = 0; ///< 0: as many as pay
  bool rolls = false;      ///< keeps the rollout beside the stream
};

/// What a layer that was computed leaves to those after it: the stream, the rollout where `rolls`,
/// and keys that later ones take.
StageSet outputs_of(const TextLayers& layers, std::size_t n, bool rolls);
/// Moves a stream past the layer that `run` has computed, or computes.
void move_past(const TextLayers& layers, LayerRun& run, bool rolls, std::size_t threads,
               PhaseTimes* times, Residual& stream);

/// The stream before layer `to`: each layer from `from` on reads the stream of the one before it.
Residual advance(const TextLayers& layers, Residual from, std::size_t to,
                 const Advance& advance = {});

/// The streams between a model's layers, computed on demand, and kept. May be
/// used by several threads.
class Streams {
public:
  /// `threads`: 0: as many as pay.
  explicit Streams(std::shared_ptr<const TextLayers> layers, std::size_t threads = 0)
      : layers_(std::move(layers)), threads_(threads) {}

  const TextLayers& layers() const { return *layers_; }
  /// The stream before a layer, or after the last.
  Residual before(std::size_t layer);
  /// A layer with that stream; after the last one the model's ends.
  Layer layer(std::size_t number);
  /// A whole stage of it, batch axis first.
  Tensor stage(std::size_t layer, Stage stage);

private:
  std::shared_ptr<const TextLayers> layers_;
  std::size_t threads_;
  std::mutex lock_;
  std::vector<Residual> streams_;
};

} // namespace mha
