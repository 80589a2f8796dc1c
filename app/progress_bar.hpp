#pragma once
// A bar on standard error for a terminal.

#include <cstddef>

namespace mha::app {

/// Shows from here on how far computations are: after a second of one, on a terminal, gone when it
/// ends. `layers` is how many are to be computed one after the other.
void show_progress(std::size_t layers);

/// Takes the bar off the screen. May be called by a signal handler.
void clear_progress() noexcept;

} // namespace mha::app
