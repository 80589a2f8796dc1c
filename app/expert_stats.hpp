#pragma once
// stats --experts: the experts of a model's mixtures.

#include "options.hpp"
#include <mha/render/table.hpp>

namespace mha::app {

/// One row for each expert of the chosen layers that have a mixture. Throws Error where none has.
render::Table expert_stats(const RunRequest& request, const Selection& selection, Common& common);

} // namespace mha::app
