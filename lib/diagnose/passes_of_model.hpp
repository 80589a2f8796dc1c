#pragma once
// Passes of a whole model under a change of all its layers, of its embedding, or of their order.

#include <mha/diagnose/end_of_model.hpp>

#include <functional>
#include <optional>
#include <vector>

namespace mha {

/// What the whole model may do otherwise.
struct WholeChange {
  enum class Kind : std::uint8_t {
    of_layers,    ///< the change, in each layer that has it
    of_embedding, ///< the change, of the ends
    of_order,     ///< layers run in another order
    windows,      ///< each layer has the window of another one
    rotations,    ///< each layer has the rotation of another one
  };

  Change change;
  Kind kind = Kind::of_layers;
  std::vector<std::size_t> order = {};   ///< which layers run, or whose settings each has
  std::vector<bool> in = {};             ///< of_layers: those that have it; empty: all
  std::optional<std::size_t> alone = {}; ///< of_layers: the one that has it
  std::string which = {};                ///< how those are told: ", in every second layer"
  std::optional<Change> at_end = {};     ///< the same of the model's end, made with it
  /// The change of each layer, where it is made for it: a fitted number.
  std::function<Change(const Layer&)> made = {};

  /// The change of the model's end that is made with it; null: none.
  const Change* of_end() const { return at_end ? &*at_end : nullptr; }
};

/// The numbers 0 … count − 1.
std::vector<std::size_t> up_to(std::size_t count);

/// A model on a text, or on its first tokens, with the changes that each layer allows.
class PassesOfModel {
public:
  /// `embed`: what enters the first layer, (B, T, d_model).
  PassesOfModel(std::vector<Layer> layers, Tensor embed, bool fused, std::size_t threads);
  /// The same of the first tokens; nothing where the layers have no shorter form.
  static std::optional<PassesOfModel> of_first(const PassesOfModel& whole, std::size_t tokens,
                                               bool fused);

  /// How many layers and tokens there are.
  std::size_t layers() const { return layers_.size(); }
  std::size_t tokens() const { return embed_.shape()[1]; }
  /// A layer on what enters the first one.
  const Layer& layer(std::size_t n) const { return layers_[n]; }
  /// Whether two layers have the same window, or the same rotation.
  bool same_settings(std::size_t a, std::size_t b, WholeChange::Kind kind) const;
  /// What each layer allows.
  const std::vector<std::vector<Change>>& changes() const { return changes_; }

  /// What enters each layer and leaves the last one, as the model is; rounded to a short type
  /// behind each of them, where one is given.
  std::vector<Tensor> streams(std::optional<DType> half = {}) const;
  /// What layer n hands on under a change, or as it is.
  Tensor after_layer(std::size_t n, const Tensor& stream, const Change* change) const;
  /// Keeps what enters each layer as the model is: under a change of one layer alone, passes begin
  /// with that layer.
  void keep_streams() { own_ = streams(); }
  /// The stream behind the last layer under a change; `embed`: the changed embedding of all tokens.
  Tensor after_all(const WholeChange& tried, const Tensor& embed) const;
  /// The first layer that a change is of; their number where it is of none.
  std::size_t first_with(const Change& change) const;

private:
  const Change* own_change(std::size_t n, const Change& change) const;
  Tensor after_place(std::size_t place, const Tensor& stream, const WholeChange& tried) const;

  std::vector<Layer> layers_;
  std::vector<std::vector<Change>> changes_;
  Tensor embed_;
  std::vector<Tensor> own_; ///< keep_streams()
  std::size_t threads_;
};

/// Each change in every layer that it is of (windows and norms may be those of some alone), in
/// every second or fourth layer, of the embedding, of the layers' order and of whose settings they
/// have.
std::vector<WholeChange> whole_changes(const PassesOfModel& model, const EndOfModel& end,
                                       const ModelAround* around);

/// A number that the whole model may have otherwise, to be fitted.
struct WholeNumber {
  double low, high; ///< where it is looked for
  std::function<WholeChange(double)> change;
};
/// Those of a model.
std::vector<WholeNumber> whole_numbers(const PassesOfModel& model, const ModelAround* around);

} // namespace mha
