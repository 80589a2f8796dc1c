#pragma once
// Separators: tokens between parts of a text, on which heads without a target put their weight
// (Clark et al. 2019, "What does BERT look at?").

#include <mha/layer/layer.hpp>

namespace mha {

/// Whether a token separates: a model's end or separator token ([SEP], </s>, <|endoftext|> …), or
/// only full stops, commas, colons, semicolons, question and exclamation marks, bars, the >> of
/// chemical reactions and ends of lines. A tokenizer's marks of blanks are ignored.
bool is_separator(std::string_view token);

/// The keys of a batch item that are separators, in order, without key 0, which `first` measures.
/// `named`: labels of tokens that separate; empty means those of is_separator().
std::vector<std::size_t> separator_keys(const Layer& layer, std::size_t batch,
                                        const std::vector<std::string>& named);

} // namespace mha
