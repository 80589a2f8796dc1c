#pragma once
// Results of an earlier run in a result's place: `dump --resume`.

#include <mha/files/writer.hpp>

#include <string>

namespace mha::app {

/// Nothing that this run would write; its tensors, types and shapes, in a format that does not say
/// what they were made of; the same with the same mark (Output::run).
enum class EarlierResult { none, unmarked, marked };

/// Files appear when they are whole, so the header says all. A damaged or foreign file is none.
EarlierResult earlier_result(const std::string& path, const io::Output& expected);

} // namespace mha::app
