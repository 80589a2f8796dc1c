#pragma once
// Special tokens of the files beside a tokenizer: BOS, EOS and the mask, and tokens that it lacks.

#include <mha/tokenizers/fields.hpp>
#include <mha/tokenizers/parts.hpp>

namespace mha::tokenizers {

/// Reads tokenizer_config.json, special_tokens_map.json and config.json of a folder, as far as they
/// are there, and added_tokens.json where the first has no added_tokens_decoder. Tokens that they
/// name and the tokenizer lacks are added, as Transformers does; Error where two have one number.
/// Where tokenizer_config.json has add_bos_token or add_eos_token, the template follows it.
void read_special_tokens(const std::string& folder, Pipeline& parts);

/// The template with or without BOS at its beginning. Throws Error if BOS is wanted and not known.
TokenTemplate with_bos(const Pipeline& parts, bool wanted);

/// The template of special tokens that a post-processor puts around a text.
TokenTemplate read_post_processor(const JsonNode& node);

} // namespace mha::tokenizers
