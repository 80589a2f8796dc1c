#pragma once
// A layer's settings as options, "--causal", and among the sources, "causal=true".

#include "options.hpp"

namespace mha::app {

/// One option per row of the settings table.
void add_settings(Cli& cli, RunRequest& request);
/// Takes the settings out of the sources: what is a tensor or a stage, too, is that. Throws
/// UsageError for a setting with two values, Error for a value that it cannot have.
void take_settings(RunRequest& request);

} // namespace mha::app
