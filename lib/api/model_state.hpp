#pragma once
// State of a Model, its Tokens, Patches and Runs.

#include <mha/api/cache.hpp>
#include <mha/load/edit.hpp>
#include <mha/model/patcher.hpp>

#include <map>
#include <mutex>
#include <optional>

namespace mha {

struct Tokens::State {
  std::shared_ptr<const Weights> weights;
  std::vector<std::vector<int>> ids; ///< each text's own
  bool batched = false;
  bool labelled = false; ///< whether layers get the tokens' texts
  std::vector<Note> notes;
};

struct Patch::State {
  StageEdit edit;
  /// The place, if it was given as one; a model gives its layer a number.
  std::optional<At> at;
  std::shared_ptr<const Run::State> other;                 ///< of from()
  std::function<Tensor(Place place, Tensor row)> function; ///< of rows()
};

struct Model::State {
  std::string folder;
  std::optional<Sources> sources; ///< opened without a text
  std::shared_ptr<const Weights> weights;
  std::vector<TensorEdit> edits;
  std::vector<Note> doubts; ///< of the weights that were exchanged
  /// The layers for a single token: for sizes and weights, which no text changes.
  std::shared_ptr<TextLayers> of_one_token;

  void take_one_token();
  /// A layer with the stream of that token.
  Layer layer_of_one_token(std::size_t n) const;

  /// The ids of the layers, in their order.
  const std::vector<std::string>& ids() const { return weights->model().layers(); }
  std::size_t layers() const { return ids().size(); }
  /// Texts as each layer reads them. Throws Error for those of another model.
  std::shared_ptr<const Texts> texts_of(const Tokens& tokens) const;
  /// The layers for some texts.
  std::shared_ptr<TextLayers> layers_for(const Tokens& tokens) const;
  std::shared_ptr<TextLayers> layers_for(std::shared_ptr<const Texts> texts) const;
  /// A layer by its number or id. Throws Error where there is none.
  std::size_t number_of(const LayerId& layer) const;
};

struct Run::State {
  std::shared_ptr<const Model::State> model;
  Tokens tokens{nullptr};
  std::shared_ptr<const TextLayers> layers;
  std::shared_ptr<ValueRuns> values; ///< of runs without patches, which patches take values from
  std::vector<Patch> patches;
  std::size_t threads = 0;
  std::vector<Residual> streams; ///< before each layer, and after the last; empty: not kept
  /// By layer, then the model's end; none: nothing was asked for there.
  std::vector<std::optional<Cache>> kept;
  std::vector<Note> doubts; ///< of the values of patches
  std::vector<Note> notes;  ///< for the user

  mutable std::mutex once; ///< of what follows, computed when it is first asked for
  mutable std::optional<std::vector<std::vector<double>>> losses;
  mutable Tensor logits;

  /// Makes `values`: of the run's own layers, and of texts that patches name.
  void take_values();
  /// The model's end on the last stream. Throws Error where no stream was kept.
  Layer ends() const;
  /// Logits that are there already, kept or computed; else an empty tensor.
  Tensor known_logits() const;
};

} // namespace mha

namespace mha::api {

/// A patch that was put on a layer.
struct PutPatch {
  std::size_t patch; ///< its index in the run's list
  IsRead is_read;
  std::string doubt; ///< about its value; "": none
};
/// Puts a run's patches of layer `n` on it; `n` = layers is the model's end. Adds them to `put`.
void patch_layer(const Run::State& run, Layer& layer, std::size_t n, std::vector<PutPatch>& put);
/// Throws Error for a patch, from `first_new` on, that no computation has read.
void require_read(const Run::State& run, const std::vector<PutPatch>& put, std::size_t first_new);
/// The first layer that patches change; the number of layers where they change the model's end
/// alone. Throws Error for a layer that does not exist.
std::size_t first_patched(const Model::State& model, const std::vector<Patch>& patches);

} // namespace mha::api
