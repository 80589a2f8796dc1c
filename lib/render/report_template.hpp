#pragma once
// The page without its data: lib/render/page/, put into the program by page/embed.cmake.

#include <string_view>

namespace mha::render {

/// Up to the title's text; from there to where the data goes; from there to the end.
extern const std::string_view page_start, page_middle, page_end;

} // namespace mha::render
