#pragma once
// Which special tokens go around a text.

#include <mha/load/tokenizers/fields.hpp>
#include <mha/load/tokenizers/parts.hpp>

namespace mha::tokenizers {

/// The frame that a post-processor puts around a text.
Frame read_post_processor(const JsonNode& node);

// One a kind; post_processors.cpp lists them.
Frame bert_frame(Fields& fields);
Frame byte_level_frame(Fields& fields);
Frame roberta_frame(Fields& fields);
Frame template_frame(Fields& fields);

} // namespace mha::tokenizers
