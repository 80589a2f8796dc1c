#pragma once
// Command lines to copy: the sources and options as typed, for another command.

#include <mha/model/run_request.hpp>
#include <mha/render/text.hpp>
#include <mha/system/characters.hpp>

namespace mha::app {

/// The sources and options of a request as typed, with --layer for this one layer.
std::string retyped(const RunRequest& request, const std::string& layer_id);
/// Breaks a shell command at spaces outside quotes into lines that fit the window, joined by
/// backslashes. `column`: where the first line starts.
std::string wrapped_command(const std::string& line, std::size_t column, std::size_t width);
/// The same for each line "Title: mha-inspect …" of a text, if it is shown in a window.
std::string wrapped_commands(std::string_view text, const render::TextStyle& text_style);

} // namespace mha::app
