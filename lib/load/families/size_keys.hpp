#pragma once
// The sizes of a model under the spellings that its config.json may have: families call the same
// size hidden_size, n_embd, d_model or dim.

#include <span>
#include <string_view>

namespace mha::naming {

/// All spellings of the size that `key` is a spelling of, `key` among them; empty where it is no
/// size of this table. Every family reads every spelling, so that a second one with another value
/// is an error, and one alone is read.
std::span<const std::string_view> size_spellings(std::string_view key);

} // namespace mha::naming
