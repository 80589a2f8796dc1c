#pragma once
// Command lines that a reader can copy: the layer as it was typed, for another command.

#include <mha/model/run_request.hpp>
#include <mha/render/text.hpp>
#include <mha/system/characters.hpp>

namespace mha::app {

/// The sources and the options of the layer, with the one layer chosen.
std::string retyped(const RunRequest& request, const std::string& layer_id);
/// A line of the shell behind `used` columns, in lines that the window holds: broken at its spaces,
/// but not within quotes, each with the backslash that makes them one.
std::string fitted_command(const std::string& line, std::size_t used, std::size_t width);
/// The same for each line "Title: mha-inspect …" of a text, where a window has a width to fit.
std::string fitted_commands(std::string_view text, const render::TextStyle& text_style);

} // namespace mha::app
