#pragma once
// Lists of words in one text, separated by spaces, as the tables hold aliases; parts of dotted
// names.

#include <string_view>
#include <vector>

namespace mha {

/// The words of a list, in its order.
std::vector<std::string_view> words_of(std::string_view list);
/// Whether `word` is one of them.
bool has_word(std::string_view list, std::string_view word);
/// What is behind a name's last dot, or the whole name: "blocks.0.attn.hook_q" → "hook_q".
std::string_view last_part(std::string_view name);

} // namespace mha
