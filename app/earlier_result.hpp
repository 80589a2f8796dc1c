#pragma once
// Results of an earlier run in a result's place: `dump --resume`.

#include <mha/files/writer.hpp>

#include <string>
#include <vector>

namespace mha::app {

/// Nothing that this run would write; its tensors, types and shapes, in a format that does not say
/// what they were made of; the same with the same mark (Output::run).
enum class EarlierResult { none, unmarked, marked };

/// Files appear when they are whole, so the header says all. A damaged or foreign file is none.
EarlierResult earlier_result(const std::string& path, const io::Output& expected);

/// "2 of 4 layers were there and whole, …: 0, 1", of layers that --resume left as they are.
/// `unmarked`: some of them do not say of which run they are.
std::string skipped_text(const std::vector<std::string>& layers, std::size_t all, bool unmarked);

} // namespace mha::app
