#pragma once
// The files that tokenizers come in.

#include <mha/tokenizers/parts.hpp>

#include <mha/files/contents.hpp>

namespace mha::tokenizers {

/// A file of a folder, or nothing if there is none. Throws Error if it is not a regular file or is
/// larger than any tokenizer.
std::optional<io::Bytes> read_file_of(const std::string& folder, const std::string& name);

/// Reads GPT-2's vocab.json and merges.txt, or BERT's vocab.txt; nullptr if a folder has neither.
/// Throws Error if the folder's tokenizer has rules that these files do not contain.
std::shared_ptr<Pipeline> read_vocabulary_files(const std::string& folder);

/// Reads tokenizer.json into the parts that it describes. Throws Error with line and column for
/// anything malformed or not known here.
std::shared_ptr<Pipeline> read_tokenizer_json(const std::string& name, std::string_view text);

/// The settings of a tokenizer in tokenizer_config.json, or else in config.json.
struct TokenizerConfig {
  /// "bert" of BertTokenizerFast, or config.json's model_type.
  std::string family;
  /// do_lower_case, strip_accents, tokenize_chinese_chars and add_prefix_space.
  std::optional<bool> lower, accents, chinese, add_prefix_space;
};
/// `of_both`: the settings other than the family may also be in config.json.
TokenizerConfig read_tokenizer_config(const std::string& folder, bool of_both);

/// Applies do_lower_case, strip_accents, tokenize_chinese_chars and add_prefix_space of
/// tokenizer_config.json. The classes of Transformers with such a setting of their own
/// (BertTokenizer, GPT2Tokenizer and similar ones) let it replace that of tokenizer.json, and so
/// does this function; for all others tokenizer.json counts. Any contradiction causes a warning.
void follow_config(const std::string& folder, Pipeline& parts);

} // namespace mha::tokenizers
