#pragma once
// --patch: what a stage holds is set, added to or multiplied while layers are computed.

#include "cli.hpp"
#include <mha/model/run_request.hpp>

#include <string>
#include <vector>

namespace mha::app {

/// Declares --patch, which may be given again. When the command has run, a patch that nothing has
/// read is an Error.
void add_patches(Cli& cli, RunRequest& request);
/// Those of a request, as they were typed.
std::vector<std::string> typed_patches(const RunRequest& request);

} // namespace mha::app
