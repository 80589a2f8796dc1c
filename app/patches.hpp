#pragma once
// --patch: what a stage holds is set, added to or multiplied while layers are computed.

#include "cli.hpp"
#include <mha/load/load.hpp>

namespace mha::app {

/// Declares --patch, which may be given again.
void add_patches(Cli& cli, Request& request);
/// At the end of a command: throws Error for a patch that nothing has read.
void require_patches_read();

} // namespace mha::app
