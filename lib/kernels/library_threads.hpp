#pragma once
// Libraries that thread by OpenMP, kept to one thread: with more, their results' last bits change.

namespace mha {

/// Makes libraries use one thread when they are called from this thread. Cheap after the first
/// call.
void use_one_library_thread();

} // namespace mha
