#pragma once
// Describes a loaded layer in one line.

#include <mha/load/load.hpp>
#include <mha/naming/layer_words.hpp>

namespace mha {

inline LayerWords words_of(const LoadedLayer& loaded) {
  return layer_in_words(loaded.layer, loaded.id, loaded.naming);
}

} // namespace mha
