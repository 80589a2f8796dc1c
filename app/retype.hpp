#pragma once
// Command lines that a reader can copy: the layer as it was typed, for another command.

#include <mha/load/load.hpp>

namespace mha::app {

/// A word for a shell, quoted where it must be.
std::string shell_word(std::string_view word);
/// The sources and the options of the layer, with the one layer chosen.
std::string retyped(const Request& request, const std::string& layer_id);

} // namespace mha::app
