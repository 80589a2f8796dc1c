#pragma once
// Describes a loaded layer in one line.

#include <mha/naming/layer_words.hpp>
#include <mha/load/load.hpp>

namespace mha {

inline LayerWords words_of(const LoadedLayer& loaded) {
  return layer_in_words(loaded.layer, loaded.id, loaded.naming);
}

} // namespace mha
