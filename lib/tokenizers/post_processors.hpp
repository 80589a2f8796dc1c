#pragma once
// Which special tokens go around a text.

#include <mha/tokenizers/fields.hpp>
#include <mha/tokenizers/parts.hpp>

namespace mha::tokenizers {

/// The template of special tokens that a post-processor puts around a text.
TokenTemplate read_post_processor(const JsonNode& node);

/// Longer templates are refused: in a sequence, each template that repeats the text doubles the
/// length.
constexpr std::size_t longest_template = 10'000;

// One a kind; post_processors.cpp lists them.
TokenTemplate bert_template(Fields& fields);
TokenTemplate byte_level_template(Fields& fields);
TokenTemplate roberta_template(Fields& fields);
TokenTemplate processing_template(Fields& fields);

} // namespace mha::tokenizers
