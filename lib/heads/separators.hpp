#pragma once
// Which keys are separators: tokens between parts of a text, where heads that look for nothing else
// put their weight (Clark et al. 2019, "What does BERT look at?").

#include <mha/layer/layer.hpp>

namespace mha {

/// Whether a token separates: an end or separator of a model ([SEP], </s>, <|endoftext|> …), or
/// nothing but full stops, commas, colons, semicolons, question and exclamation marks, bars, the >>
/// of chemical reactions and ends of lines. A tokenizer's marks of blanks are seen through.
bool is_separator(std::string_view token);

/// The keys of a batch item that are separators, in order, without key 0, which `first` is about.
/// `named`: the tokens that separate, as the labels have them; empty: those of is_separator().
std::vector<std::size_t> separator_keys(const Layer& layer, std::size_t batch,
                                        const std::vector<std::string>& named);

} // namespace mha
