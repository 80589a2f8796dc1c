#pragma once
// Special tokens: those that a checkpoint's other files name, and the template around a text.

#include <mha/tokenizers/fields.hpp>
#include <mha/tokenizers/parts.hpp>

namespace mha::tokenizers {

/// Reads BOS, EOS and the mask from tokenizer_config.json, special_tokens_map.json and config.json
/// of a folder, and added_tokens.json if the first has no added_tokens_decoder. Tokens that these
/// files name and the tokenizer lacks are added, as in Transformers; two tokens with one id are an
/// Error. The template follows add_bos_token and add_eos_token of tokenizer_config.json.
void read_special_tokens(const std::string& folder, Pipeline& parts);

/// The template with or without BOS at its beginning. Throws Error if BOS is wanted but not known.
TokenTemplate with_bos(const Pipeline& parts, bool wanted);

/// The template of special tokens that a post-processor puts around a text.
TokenTemplate read_post_processor(const JsonNode& node);

} // namespace mha::tokenizers
