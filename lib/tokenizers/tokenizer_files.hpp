#pragma once
// The files that tokenizers come in.

#include <mha/tokenizers/parts.hpp>

#include <mha/files/contents.hpp>

namespace mha::tokenizers {

/// A file of a folder, or nothing where there is none. Throws Error for what is no plain file, and
/// for one larger than any tokenizer.
std::optional<io::Bytes> read_file_of(const std::string& folder, const std::string& name);

/// GPT-2's vocab.json and merges.txt, or BERT's vocab.txt; nullptr where a folder has neither.
/// Throws Error where the folder's models are cut by rules that these files do not say.
std::shared_ptr<Pipeline> read_vocabulary_files(const std::string& folder);

} // namespace mha::tokenizers
