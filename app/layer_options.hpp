#pragma once
// Options that change a layer: its settings ("--causal", or among the sources "causal=true") and
// --patch.

#include "options.hpp"
#include <mha/model/run_request.hpp>

#include <string>
#include <vector>

namespace mha::app {

/// Declares one option for each row of the settings table.
void add_settings(Cli& cli, RunRequest& request);
/// Moves the settings among the sources to `request.settings`. A name that is also a tensor or a
/// stage stays a source. Throws UsageError for a setting with two values, Error for an invalid
/// value.
void move_settings_from_sources(RunRequest& request);

/// Declares --patch, which may be repeated. After the command, a patch that was never used is an
/// Error.
void add_patches(Cli& cli, RunRequest& request);
/// The patches of a request as typed.
std::vector<std::string> typed_patches(const RunRequest& request);

} // namespace mha::app
