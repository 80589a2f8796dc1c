#pragma once
// Passes of a whole model under a change of its layers, its embedding, or the order of layers.

#include <mha/diagnose/end_of_model.hpp>

#include <functional>
#include <optional>
#include <vector>

namespace mha {

/// A change of the whole model.
struct WholeChange {
  enum class Kind : std::uint8_t {
    of_layers,    ///< the change in each layer that allows it
    of_embedding, ///< the change of the embedding
    of_order,     ///< the layers in another order
    windows,      ///< each layer with another layer's window
    rotations,    ///< each layer with another layer's rotation
  };

  Change change;
  Kind kind = Kind::of_layers;
  std::vector<std::size_t> order =
      {};                    ///< the layers that run, or the layer whose settings each takes
  std::vector<bool> in = {}; ///< of_layers: which layers have it; empty: all
  std::optional<std::size_t> alone = {}; ///< of_layers: the only layer that has it
  std::string which = {};                ///< names those layers: ", in every second layer"
  std::optional<Change> at_end = {};     ///< the same change of the model's end, if made as well
  /// Makes each layer's own change, for a fitted number.
  std::function<Change(const Layer&)> made = {};

  /// The change of the model's end, or null.
  const Change* of_end() const { return at_end ? &*at_end : nullptr; }
};

/// The numbers 0 … count − 1.
std::vector<std::size_t> up_to(std::size_t count);

/// A model on a text, or on its first tokens, with the changes that each layer allows.
class PassesOfModel {
public:
  /// `embed` is the input of the first layer, (B, T, d_model).
  PassesOfModel(std::vector<Layer> layers, Tensor embed, bool fused, std::size_t threads);
  /// The same on the first tokens; nothing if the layers cannot be shortened.
  static std::optional<PassesOfModel> of_first(const PassesOfModel& whole, std::size_t tokens,
                                               bool fused);

  std::size_t layers() const { return layers_.size(); }
  std::size_t tokens() const { return embed_.shape()[1]; }
  /// Layer n on the input of the first layer.
  const Layer& layer(std::size_t n) const { return layers_[n]; }
  /// Whether two layers have the same window, or the same rotation.
  bool same_settings(std::size_t a, std::size_t b, WholeChange::Kind kind) const;
  /// The changes that each layer allows.
  const std::vector<std::vector<Change>>& changes() const { return changes_; }

  /// The stream before each layer and after the last without changes, rounded to `half` after each
  /// layer if given.
  std::vector<Tensor> streams(std::optional<DType> half = {}) const;
  /// The stream after layer n, under a change or without one (null).
  Tensor after_layer(std::size_t n, const Tensor& stream, const Change* change) const;
  /// Keeps the stream before each layer, so that passes under a change of a single layer start
  /// there.
  void keep_streams() { own_ = streams(); }
  /// The stream after the last layer under a change; `embed` is the changed embedding of all
  /// tokens.
  Tensor after_all(const WholeChange& tried, const Tensor& embed) const;
  /// The first layer that allows a change, or the number of layers if none does.
  std::size_t first_with(const Change& change) const;

private:
  const Change* own_change(std::size_t n, const Change& change) const;
  Tensor after_place(std::size_t place, const Tensor& stream, const WholeChange& tried) const;

  std::vector<Layer> layers_;
  std::vector<std::vector<Change>> changes_;
  Tensor embed_;
  std::vector<Tensor> own_; ///< of keep_streams(), else empty
  std::size_t threads_;
};

/// All changes of the whole model: each change in every layer that allows it, some of them only in
/// every second or fourth layer and the like, of the embedding, of the layers' order, and of the
/// layer whose settings each takes.
std::vector<WholeChange> whole_changes(const PassesOfModel& model, const EndOfModel& end,
                                       const ModelAround* around);

/// A number of the whole model that may be fitted.
struct WholeNumber {
  double low, high; ///< the range of the search
  std::function<WholeChange(double)> change;
};
/// The numbers of a model that may be fitted.
std::vector<WholeNumber> whole_numbers(const PassesOfModel& model, const ModelAround* around);

} // namespace mha
