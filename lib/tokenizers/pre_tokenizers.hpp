#pragma once
// Pre-tokenizers: cuts of a text into the words that the model cuts into tokens.

#include <mha/tokenizers/fields.hpp>
#include <mha/tokenizers/parts.hpp>

namespace mha::tokenizers {

/// The pre-tokenizer that a node describes.
PreTokenizer read_pre_tokenizer(const JsonNode& node);

// One a kind; pre_tokenizers.cpp lists them.
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

/// Words as BERT has them: white space goes, every punctuation mark is a word.
PreTokenizer bert_words();
/// Words as GPT-2 has them, written in bytes' characters; a blank is put before the text if wanted.
PreTokenizer byte_level_words(bool add_prefix_space, bool use_regex);

} // namespace mha::tokenizers
