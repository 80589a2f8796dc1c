#pragma once
// Words in a tensor's name, by which tensors of unknown checkpoints are recognised.

#include <initializer_list>
#include <string_view>

namespace mha {

using WordList = std::initializer_list<std::string_view>;

/// Whether a name has one of `words` between dots, slashes and underscores; in lower case.
bool has_word(std::string_view name, WordList words);
/// Whether a word of the name contains one of `parts`.
bool mentions(std::string_view name, WordList parts);
/// The part of a model that a name mentions: encoder, decoder, image, text or audio; "": none.
std::string_view part_of_model(std::string_view name);
/// Whether the last word is a norm's weight: weight, gamma, g …
bool is_norm_weight(std::string_view name);
/// Whether a name belongs to one of several layers: it has a number with two parts after it.
bool is_of_stack(std::string_view name);

} // namespace mha
