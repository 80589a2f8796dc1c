#pragma once
// Results that an earlier run has left at the output path: `dump --resume`.

#include <mha/files/writer.hpp>

#include <string>
#include <vector>

namespace mha::app {

/// Compared with the result of this run: none or a different result; the same tensors, types and
/// shapes in a format without a fingerprint of the inputs; the same fingerprint (Output::run).
enum class EarlierResult { none, unmarked, marked };

/// Reads only the header, because files appear when they are complete. A damaged or foreign file
/// counts as none.
EarlierResult earlier_result(const std::string& path, const io::Output& expected);

/// The note on layers that --resume has skipped. `unmarked`: some of their files lack a fingerprint
/// of the inputs.
std::string skipped_text(const std::vector<std::string>& layers, std::size_t all, bool unmarked);

} // namespace mha::app
