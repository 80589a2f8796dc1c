#pragma once
// --against: the stages of another implementation.

#include "cli.hpp"

namespace mha::app {

/// Declares --against REF, which may be given again.
void add_against(Cli& cli, std::vector<std::string>& against);
/// Throws UsageError where it was not given to this command.
void require_against(std::string_view command, const std::vector<std::string>& against);

/// " --against REF …", for a command line that a reader can copy.
std::string retyped_against(const std::vector<std::string>& against);

} // namespace mha::app
