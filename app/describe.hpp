#pragma once
// A layer in one line.

#include <mha/load/load.hpp>
#include <mha/render/text.hpp>

namespace mha::app {

/// "data/induction layer 1 (LLaMA names) · 4 heads × 16 · T 33 · float32 · causal"
std::string headline(const Model& model, const LoadedLayer& loaded, const render::Look& look);

} // namespace mha::app
