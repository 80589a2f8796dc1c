#pragma once
// The clean run of some texts, and runs in which parts of the model are replaced: each begins at
// the first layer that changes.

#include <mha/model/effects.hpp>
#include <mha/model/run.hpp>
#include <mha/model/stage_means.hpp>

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

namespace mha {

/// Places of a set in a model of `count` layers, those from the end counted from the first. Throws
/// Error where a place is of no layer.
std::vector<StageEdit> counted_set(std::vector<StageEdit> set, std::size_t count);

/// The stages of a layer that are replaced: of its parts, and of the set's places.
std::vector<Stage> ablated_stages(const std::vector<StageEdit>& set, const Layer& layer,
                                  std::size_t n);

/// The clean run and its changed runs, which several threads may ask for.
class Ablations {
public:
  /// Computes the clean run, and keeps each layer's stream and the outputs of its parts.
  Ablations(const TextLayers& layers, const EffectsRequest& request);

  /// A layer with the clean stream before it, and the model's end.
  Layer layer(std::size_t n) const { return layers_.layer(streams_[n]); }
  Layer ends() const { return layers_.ends(streams_.back().x); }
  const PredictionRows& clean_rows() const { return rows_; }

  /// The last stream, at the positions of the predictions, of a run with heads of layer n replaced;
  /// empty: all heads.
  Tensor stream_without_heads(std::size_t n, const std::vector<std::size_t>& heads,
                              std::size_t threads) const;
  /// The same with mlp_out, or layer_add.
  Tensor stream_without(std::size_t n, Stage stage, std::size_t threads) const;
  /// The same with other weights of a mixture's chosen experts: B, T, n.
  Tensor stream_with_weights(std::size_t n, const Tensor& weights, std::size_t threads) const;
  /// The same with all places of the set replaced.
  Tensor stream_without_set() const;

private:
  struct Clean {
    Tensor head_out, output, mlp_out, layer_add;
  };

  void require_texts() const;
  Tensor replacement(std::size_t n, Stage stage, const Tensor& clean) const;
  Tensor of_next_texts(std::size_t n, Stage stage, const Tensor& clean) const;
  ResolvedEdit patch_of(std::size_t n, const Layer& layer, const StageEdit& edit) const;
  ResolvedEdit patch_of(std::size_t n, const Layer& layer, Stage stage, const Tensor& clean,
                        const std::vector<std::size_t>& heads) const;
  Tensor stream_from(std::size_t n, const Layer& changed, std::size_t threads) const;

  const TextLayers& layers_;
  const EffectsRequest& request_;
  std::vector<StageEdit> set_;
  std::vector<std::size_t> positions_; ///< of the predictions, in ascending order
  std::vector<Residual> streams_;      ///< of the clean run: before each layer, and after the last
  std::vector<Clean> clean_;
  PredictionRows rows_;
  std::unique_ptr<Streams> next_; ///< of the texts whose values come in, if not the run's own
  mutable std::mutex replacing_;
  /// The values that replace stages, made on demand; guarded by `replacing_`.
  mutable std::map<std::pair<std::size_t, Stage>, Tensor> replacements_;
};

} // namespace mha
