#pragma once
// Words of a command line before CLI11 parses them: spellings, and what it would read otherwise.

#include "cli.hpp"

namespace mha::app {

/// Stands for an empty value, which the parser would take for none. No argument holds a zero byte.
inline const std::string empty_value(1, '\0');

/// Puts what stands for them now in the place of former spellings, "--set X" and "--set=X", with a
/// note each.
void take_former(std::vector<std::string>& arguments, const std::deque<Option>& options,
                 std::vector<std::string>& notes);
/// "--minus-causal false" and "--minus-causal=false" are "--minus causal=false". Throws UsageError
/// where the value is missing.
void take_families(std::vector<std::string>& arguments, const std::deque<Option>& options);
/// `-o=x` would be the value "=x", which is never meant: throws UsageError.
void refuse_equals_sign(const std::vector<std::string>& arguments,
                        const std::deque<Option>& options);
/// `--text=` and `--text ""` with their empty values as a word that the parser sees.
std::vector<std::string> with_empty_values(std::vector<std::string> arguments,
                                           const std::deque<Option>& options);
/// Positional words such as "[a,b]", led by a byte so that the parser takes each for one word; and
/// without it.
std::vector<std::string> guarded(std::vector<std::string> arguments);
std::vector<std::string> unguarded(std::vector<std::string> list);

} // namespace mha::app
