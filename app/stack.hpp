#pragma once
// The stack that the program runs on.

#include <functional>

namespace mha::app {

/// Does the work, with stack enough for it where the limit (ulimit -s) leaves too little: then on a
/// thread, which has its own; so have the threads that it starts. Returns what the work returns.
int run_on_own_stack(const std::function<int()>& work);

} // namespace mha::app
