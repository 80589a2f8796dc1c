#pragma once
// A layer's settings and patches as options.

#include "options.hpp"
#include <mha/model/run_request.hpp>

#include <string>
#include <vector>

namespace mha::app {

/// One option per row of the settings table.
void add_settings(Cli& cli, RunRequest& request);
/// Takes the settings out of the sources: what is a tensor or a stage, too, is that. Throws
/// UsageError for a setting with two values, Error for a value that it cannot have.
void take_settings(RunRequest& request);

/// Declares --patch, which may be given again. When the command has run, a patch that nothing has
/// read is an Error.
void add_patches(Cli& cli, RunRequest& request);
/// Those of a request, as they were typed.
std::vector<std::string> typed_patches(const RunRequest& request);

} // namespace mha::app
