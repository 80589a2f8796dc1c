#pragma once
// State of a Cache.

#include <mha/mha.hpp>

#include <mha/schedule/observer.hpp>

#include <map>

namespace mha {

struct Cache::State {
  DType dtype = DType::f32;
  std::vector<Stage> order; ///< of `kept`
  std::map<Stage, Tensor> kept;
  StageSet available; ///< what the layer has
  std::string layer;  ///< "layers.3" of a whole model; "this layer"
};

} // namespace mha

namespace mha::api {

/// Stages of a layer, computed and kept; `name` is the layer's in messages.
Cache computed(const Layer& layer, const StageSet& stages, std::size_t threads,
               std::string name = "this layer");
/// The bytes that they take.
std::size_t bytes_of(const Layer& layer, const StageSet& stages);

} // namespace mha::api
