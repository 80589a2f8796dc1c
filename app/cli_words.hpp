#pragma once
// Rewrites a command line before CLI11 parses it: former spellings, and words that CLI11 would
// misread.

#include "cli.hpp"

namespace mha::app {

/// Replaces an empty value, which the parser would ignore. No argument contains a zero byte.
inline const std::string empty_value(1, '\0');

/// Replaces former spellings ("--set X", "--set=X") by the current ones, and adds a note for each.
void take_former(std::vector<std::string>& arguments, const std::deque<Option>& options,
                 std::vector<std::string>& notes);
/// Replaces "--minus-causal false" and "--minus-causal=false" by "--minus causal=false". Throws
/// UsageError if the value is missing.
void take_families(std::vector<std::string>& arguments, const std::deque<Option>& options);
/// Throws UsageError for `-o=x`, which the parser would read as the value "=x".
void refuse_equals_sign(const std::vector<std::string>& arguments,
                        const std::deque<Option>& options);
/// Replaces the empty values of `--text=` and `--text ""` by a word that the parser keeps.
std::vector<std::string> with_empty_values(std::vector<std::string> arguments,
                                           const std::deque<Option>& options);
/// Puts a byte before positional words such as "[a,b]", so that the parser does not split them, and
/// removes it again.
std::vector<std::string> guarded(std::vector<std::string> arguments);
std::vector<std::string> unguarded(std::vector<std::string> list);

} // namespace mha::app
