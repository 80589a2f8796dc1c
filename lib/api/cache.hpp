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
  StageSet available; ///< the stages that the layer has
  std::string layer;  ///< "layers.3" of a whole model; "this layer"
};

} // namespace mha

namespace mha::api {

/// Computes stages of a layer on `threads` threads and keeps them; messages call the layer `name`.
Cache computed(const Layer& layer, const StageSet& stages, std::size_t threads,
               std::string name = "this layer");
/// The bytes that these stages take, in the layer's dtype.
std::size_t bytes_of(const Layer& layer, const StageSet& stages);

} // namespace mha::api
