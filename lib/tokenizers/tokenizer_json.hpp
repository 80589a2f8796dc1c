#pragma once
// tokenizer.json, read into the parts that it describes.

#include <mha/tokenizers/parts.hpp>

namespace mha::tokenizers {

/// Throws Error with line and column for whatever is malformed or not known here.
std::shared_ptr<Pipeline> read_tokenizer_json(const std::string& name, std::string_view text);

} // namespace mha::tokenizers
