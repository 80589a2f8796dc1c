#pragma once
// Stages of a whole model by name: what a run is to keep, and where it kept it.

#include <mha/api/cache.hpp>
#include <mha/layer/stage_place.hpp>

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

namespace mha::api {

/// The stages that are asked for of each layer, and of the model's end.
class Wishes {
public:
  /// "layers.3.weights", "layers.-1.weights", "layers.0-2.weights", "layers.*.weights", "weights"
  /// of every layer, "logits"; "*" is all, "layers.3.*" all of a layer. Throws Error for an unknown
  /// name.
  Wishes(const std::vector<std::string>& names, std::size_t layers);

  /// The stages asked for of a layer. Throws Error for a named stage that it lacks.
  StageSet of(std::size_t number, const Layer& layer) const;
  bool any(std::size_t number) const { return all_[number] || stages_[number].any(); }
  /// Whether the rollout of a layer is asked for.
  bool roll_out() const {
    return std::ranges::any_of(
        stages_, [](const StageSet& stages) { return contains(stages, Stage::rollout); });
  }

private:
  void add(const std::string& name, std::size_t layers);

  std::vector<bool> all_; ///< of each layer, and of the model
  std::vector<StageSet> stages_;
};

/// The layers (or `layers`, for the model itself) of which a stage of that name is kept.
std::vector<std::size_t> places_named(std::string_view name,
                                      const std::vector<std::optional<Cache>>& kept,
                                      std::size_t layers);
/// The layers that a name begins with, counted from the first; none: it names no layer. Throws
/// Error where the model has no such layer.
PlaceLayers layers_named(std::string_view name, std::size_t layers);
/// The cache that a layer's stages are put into. Throws Error for a stage that it does not have.
std::shared_ptr<Cache::State> empty_cache(const Layer& layer, const StageSet& stages,
                                          std::string name);

} // namespace mha::api
