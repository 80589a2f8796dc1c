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

/// Reads tokenizer.json into the parts that it describes. Throws Error with line and column for
/// whatever is malformed or not known here.
std::shared_ptr<Pipeline> read_tokenizer_json(const std::string& name, std::string_view text);

/// What tokenizer_config.json, and config.json where it is silent, say of a tokenizer.
struct Said {
  /// "bert" of BertTokenizerFast, or config.json's model_type.
  std::string family;
  /// do_lower_case, strip_accents, tokenize_chinese_chars and add_prefix_space.
  std::optional<bool> lower, accents, chinese, add_prefix_space;
};
/// `of_both`: config.json may say those settings, too.
Said read_said(const std::string& folder, bool of_both);

/// do_lower_case, strip_accents, tokenize_chinese_chars and add_prefix_space of
/// tokenizer_config.json. The classes of Transformers that have such a setting of their own
/// (BertTokenizer, GPT2Tokenizer and their kin) put it in the place of tokenizer.json's, and so
/// does this, with a warning; for all others tokenizer.json counts, and a warning says so. What
/// agrees changes nothing and is silent.
void follow_config(const std::string& folder, Pipeline& parts);

} // namespace mha::tokenizers
