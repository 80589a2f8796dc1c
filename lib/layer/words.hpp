#pragma once
// Lists of words in one text, separated by spaces: how the tables hold aliases.

#include <string_view>
#include <vector>

namespace mha {

/// The words of a list, in its order.
std::vector<std::string_view> words_of(std::string_view list);
/// Whether `word` is one of them.
bool has_word(std::string_view list, std::string_view word);

} // namespace mha
