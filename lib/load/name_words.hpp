#pragma once
// Words of a tensor's name, in which checkpoints say what a tensor is.

#include <initializer_list>
#include <string_view>

namespace mha {

using WordList = std::initializer_list<std::string_view>;

/// Whether one of `words` stands in a name between dots, slashes and underscores, in small letters.
bool has_word(std::string_view name, WordList words);
/// Whether a word of the name holds one of `parts`.
bool mentions(std::string_view name, WordList parts);
/// The part of a model that a name speaks of: encoder, decoder, image, text or audio; "" of none.
std::string_view part_of_model(std::string_view name);
/// Whether the last word is a norm's weight: weight, gamma, g …
bool is_norm_weight(std::string_view name);
/// Whether a name is of one of several layers: a number stands in it, and two parts behind.
bool is_of_stack(std::string_view name);

} // namespace mha
