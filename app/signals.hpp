#pragma once
// Ends that are not our choice.

namespace mha::app {

/// Ctrl-C, SIGTERM, a closed terminal, a limit of time and every other signal that can be caught
/// leave no temporary files behind, and then end the program as they always do (for a shell: 130,
/// 143, 129 …). A mapped file that becomes shorter while it is
/// read is a message and exit code 2. Too large a file is an error of write().
void handle_signals();

} // namespace mha::app
