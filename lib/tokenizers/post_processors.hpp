#pragma once
// Which special tokens go around a text.

#include <mha/tokenizers/fields.hpp>
#include <mha/tokenizers/parts.hpp>

namespace mha::tokenizers {

/// The frame that a post-processor puts around a text.
Frame read_post_processor(const JsonNode& node);

/// Longer frames are refused: templates, and sequences of them, could double it each time.
constexpr std::size_t longest_frame = 10'000;

// One a kind; post_processors.cpp lists them.
Frame bert_frame(Fields& fields);
Frame byte_level_frame(Fields& fields);
Frame roberta_frame(Fields& fields);
Frame template_frame(Fields& fields);

} // namespace mha::tokenizers
