#pragma once
// Pre-tokenizers, which cut a text into the words that the model cuts into tokens.

#include <mha/tokenizers/fields.hpp>
#include <mha/tokenizers/parts.hpp>

namespace mha::tokenizers {

/// The pre-tokenizer that a node describes.
PreTokenizer read_pre_tokenizer(const JsonNode& node);

// The kinds of pre-tokenizers, which pre_tokenizers.cpp lists.
PreTokenizer bert_words(Fields& fields);
PreTokenizer byte_level_words(Fields& fields);
PreTokenizer delimiter(Fields& fields);
PreTokenizer digits(Fields& fields);
PreTokenizer fixed_length(Fields& fields);
PreTokenizer metaspace(Fields& fields);
PreTokenizer punctuation(Fields& fields);
PreTokenizer split(Fields& fields);
PreTokenizer unicode_scripts(Fields& fields);
PreTokenizer whitespace(Fields& fields);
PreTokenizer whitespace_split(Fields& fields);

/// BERT's words: white space is removed, and every punctuation mark is a word.
PreTokenizer bert_words();
/// GPT-2's words, spelt as in byte_level.hpp.
PreTokenizer byte_level_words(bool add_prefix_space, bool use_regex);

} // namespace mha::tokenizers
